import type { Family, ServicePort } from "../core/model/mod.ts";
import type { Service, ServicePortSpec } from "../core/objects/mod.ts";
import {
  type EndpointExplanation,
  type EndpointFate,
  explainEndpoints as explainFates,
  isUsed,
  type NodeContext,
  servicePortName,
  trafficPolicies,
} from "../core/planning/mod.ts";
import { serviceKey, type Tracking } from "../core/tracking/mod.ts";
import { sharesByTarget } from "./balance.ts";
import type { ExplainedEndpoint } from "./explanation.ts";

/** The endpoints of a service port with the fate of each, and how they were chosen. */
export interface ExplainedEndpoints extends Pick<EndpointExplanation, "topology" | "ignoredHints"> {
  readonly endpoints: readonly ExplainedEndpoint[];
}

/** Finds the port of a service that a service port was planned from. */
export function specOf(service: Service, port: Pick<ServicePort, "name" | "protocol">): ServicePortSpec | undefined {
  return service.ports.findLast((spec) =>
    spec.protocol === port.protocol && servicePortName(service, spec) === port.name
  );
}

/** Selects the service port whose endpoints are explained. */
export interface EndpointsQuestion {
  readonly service: Service;
  readonly spec: ServicePortSpec;
  readonly family: Family;
  readonly node: NodeContext;
  /** The plan, for the shares of its endpoints and those that do not answer. */
  readonly port: ServicePort;
  /** The policies to give reasons for; all that are in use by default. */
  readonly policies?: ReadonlySet<"cluster" | "local">;
}

/** Explains which endpoints of a service port the planner uses, and why. */
export function explainServiceEndpoints(
  tracking: Tracking,
  { service, spec, family, node, port, policies }: EndpointsQuestion,
): ExplainedEndpoints {
  const { use } = trafficPolicies(service, family, spec);
  const key = serviceKey(service.namespace, service.name);
  const known = tracking.endpoints[family].endpointsOf(key, spec.name, spec.protocol);
  const unreachable = new Set(port.unreachableEndpoints);
  const { topology, ignoredHints, endpoints: fates } = explainFates(known, use, node, unreachable);
  const allShares = sharesByTarget(port);
  const endpoints = known.map(({ target, endpoint }, i): ExplainedEndpoint => {
    const { cluster, local } = fates[i]!, shares = allShares.get(target);
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
      ...shares && { shares },
      reason: reasonOf(
        policies?.has("cluster") === false ? "unused" : cluster,
        policies?.has("local") === false ? "unused" : local,
      ),
    };
  });
  return { topology, ignoredHints, endpoints };
}

const FATES: Readonly<Record<EndpointFate, string>> = {
  ready: "ready",
  fallback: "terminating but still serving, and no endpoint is ready",
  "not-ready": "not ready",
  terminating: "terminating, and other endpoints are ready",
  "other-zone": "its hints are for another zone",
  "other-node": "its hints are for another node",
  unreachable: "does not answer this node, and others do",
  remote: "not on this node",
  unused: "no traffic uses this policy",
};

/** One reason if the policies agree or only one is in use, otherwise one for each. */
function reasonOf(cluster: EndpointFate, local: EndpointFate): string {
  if (local === "unused" || cluster === local) return FATES[cluster];
  if (cluster === "unused") return FATES[local];
  return `policy Cluster: ${FATES[cluster]}; policy Local: ${FATES[local]}`;
}
