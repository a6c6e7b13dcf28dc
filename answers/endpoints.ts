import type { Family, ServicePort } from "../core/model/mod.ts";
import type { Service, ServicePortSpec } from "../core/objects/mod.ts";
import {
  type EndpointExplanation,
  type EndpointFate,
  explainEndpoints as explainFates,
  type NodeContext,
  servicePortName,
  trafficPolicies,
} from "../core/planning/mod.ts";
import { serviceKey, type Tracking } from "../core/tracking/mod.ts";
import type { ExplainedEndpoint } from "./explanation.ts";

/** The endpoints of a service port with what became of each, and how they were chosen. */
export interface ExplainedEndpoints extends Pick<EndpointExplanation, "topology" | "ignoredHints"> {
  readonly endpoints: readonly ExplainedEndpoint[];
}

/** The part of a service that a service port was planned from. */
export function specOf(service: Service, port: Pick<ServicePort, "name" | "protocol">): ServicePortSpec | undefined {
  return service.ports.findLast((spec) =>
    spec.protocol === port.protocol && servicePortName(service, spec) === port.name
  );
}

/** Which service port's endpoints are explained. */
export interface EndpointsQuestion {
  readonly service: Service;
  readonly spec: ServicePortSpec;
  readonly family: Family;
  readonly node: NodeContext;
  /** The policies that reasons are given for; every one that is in use where it is not said. */
  readonly policies?: ReadonlySet<"cluster" | "local">;
}

/** Says of each endpoint of a service port what the planner makes of it, and why. */
export function explainServiceEndpoints(
  tracking: Tracking,
  { service, spec, family, node, policies }: EndpointsQuestion,
): ExplainedEndpoints {
  const { use } = trafficPolicies(service, family, spec);
  const key = serviceKey(service.namespace, service.name);
  const known = tracking.endpoints[family].endpointsOf(key, spec.name, spec.protocol);
  const { topology, ignoredHints, endpoints: fates } = explainFates(known, use, node);
  const endpoints = known.map(({ target, endpoint }, i): ExplainedEndpoint => {
    const { cluster, local } = fates[i]!;
    return {
      target,
      node: endpoint.nodeName,
      zone: endpoint.zone,
      onThisNode: node.name !== "" && endpoint.nodeName === node.name,
      ready: endpoint.ready,
      serving: endpoint.serving,
      terminating: endpoint.terminating,
      used: isUsed(cluster) || isUsed(local),
      cluster,
      local,
      reason: reasonOf(
        policies?.has("cluster") === false ? "unused" : cluster,
        policies?.has("local") === false ? "unused" : local,
      ),
    };
  });
  return { topology, ignoredHints, endpoints };
}

/** Whether a policy leads to an endpoint of that fate. */
export function isUsed(fate: EndpointFate): boolean {
  return fate === "ready" || fate === "fallback";
}

const FATES: Readonly<Record<EndpointFate, string>> = {
  ready: "ready",
  fallback: "terminating but still serving, and no endpoint is ready",
  "not-ready": "not ready",
  terminating: "terminating, and others are ready",
  "other-zone": "its hints give it to another zone",
  "other-node": "its hints give it to another node",
  remote: "not on this node",
  unused: "no traffic goes by this policy",
};

/** One reason where the policies agree or only one is in use; else one for each. */
function reasonOf(cluster: EndpointFate, local: EndpointFate): string {
  if (local === "unused" || cluster === local) return FATES[cluster];
  if (cluster === "unused") return FATES[local];
  return `policy Cluster: ${FATES[cluster]}; policy Local: ${FATES[local]}`;
}
