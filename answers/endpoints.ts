/** How a service port chooses its endpoints: the fate of each, and the policies of its frontends. */
import { balanceText, sharesByTarget } from "./balance.ts";
import type { ExplainedEndpoint, ExplainedPolicy } from "./explanation.ts";
import { NO_PREFIXES } from "./frontend.ts";
import type { Family, FamilySettings, FrontendKind, ServicePort } from "../core/model/mod.ts";
import { balanceAnnotations, type Service, type ServicePortSpec } from "../core/objects/mod.ts";
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
import { familyOf } from "../platform/mod.ts";

/** The endpoints of a service port with the fate of each, and how they were chosen. */
interface ExplainedEndpoints extends Pick<EndpointExplanation, "topology" | "ignoredHints"> {
  readonly endpoints: readonly ExplainedEndpoint[];
}

/** Finds the port of a service that a service port was planned from. */
export function specOf(service: Service, port: Pick<ServicePort, "name" | "protocol">): ServicePortSpec | undefined {
  return service.ports.findLast((spec) =>
    spec.protocol === port.protocol && servicePortName(service, spec) === port.name
  );
}

/** Selects the service port whose endpoints are explained. */
interface EndpointsQuestion {
  readonly service: Service;
  readonly spec: ServicePortSpec;
  readonly family: Family;
  readonly node: NodeContext;
  /** The plan, for the shares of its endpoints and the unreachable ones. */
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
    const hasNoWeight = shares !== undefined && Object.values(shares).every((share) => share === 0);
    return {
      target,
      node: endpoint.nodeName,
      zone: endpoint.zone,
      onThisNode: node.name !== "" && endpoint.nodeName === node.name,
      ready: endpoint.ready,
      serving: endpoint.serving,
      terminating: endpoint.terminating,
      used: !hasNoWeight && (isUsed(cluster) || isUsed(local)),
      cluster,
      local,
      ...shares && { shares },
      reason: hasNoWeight ? "its weight is 0" : reasonOf(
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

/** The data that the policies of a frontend are explained from. */
interface PolicyContext {
  readonly service: Service;
  readonly spec: ServicePortSpec;
  readonly port: ServicePort;
  readonly frontend: FrontendKind;
  readonly endpoints: ExplainedEndpoints;
  readonly settings: FamilySettings;
  readonly node: NodeContext;
}

/** The settings that affect connections to a frontend, with the effect of each. */
export function policiesOf(context: PolicyContext): readonly ExplainedPolicy[] {
  const { frontend } = context;
  return [
    frontend === "clusterIP" ? internalPolicy(context) : externalPolicy(context),
    ...topologyPolicy(context),
    ...affinityPolicy(context),
    ...balancePolicy(context),
    ...(frontend === "loadBalancerIP" ? sourceRangePolicy(context) : []),
    ...(frontend === "nodePort" ? nodePortPolicy(context) : []),
    ...(frontend === "clusterIP" ? masqueradePolicy(context) : []),
  ];
}

function internalPolicy({ service, port }: PolicyContext): ExplainedPolicy {
  return service.internalPolicyLocal
    ? { name: "internalTrafficPolicy", value: "Local", effect: localEffect(port.localEndpoints.length) }
    : { name: "internalTrafficPolicy", value: "Cluster", effect: "any usable endpoint in the cluster may serve" };
}

function externalPolicy({ service, spec, port }: PolicyContext): ExplainedPolicy {
  const { externalLocal } = trafficPolicies(service, familyOf(port.clusterIP), spec);
  if (!externalLocal) {
    return {
      name: "externalTrafficPolicy",
      value: "Cluster",
      effect: "any usable endpoint in the cluster may serve, and sees this node's address as the client's",
    };
  }
  return {
    name: "externalTrafficPolicy",
    value: "Local",
    effect: `${localEffect(port.localEndpoints.length)}; this node and its pods may use endpoints of the whole cluster`,
  };
}

function localEffect(count: number): string {
  if (count === 0) return "only endpoints on this node may serve, and it has none";
  return `only endpoints on this node may serve: ${count}`;
}

function topologyPolicy({ endpoints: { topology, ignoredHints }, node }: PolicyContext): ExplainedPolicy[] {
  const name = "trafficDistribution";
  if (topology === "same-node") {
    return [{ name, value: "same node", effect: `hints keep traffic on node ${node.name}` }];
  }
  const ignored = ignoredHints.length > 0 ? `; ${ignoredHints.join("; ")}` : "";
  if (topology === "same-zone") {
    return [{ name, value: "same zone", effect: `hints keep traffic in zone ${node.zone}${ignored}` }];
  }
  if (ignoredHints.length === 0) return [];
  return [{ name, value: "hints ignored", effect: ignoredHints.join("; ") }];
}

function affinityPolicy({ port: { affinitySeconds } }: PolicyContext): ExplainedPolicy[] {
  if (affinitySeconds === 0) return [];
  const effect = `a client address stays with its endpoint for ${affinitySeconds} s after its last new connection`;
  return [{ name: "sessionAffinity", value: "ClientIP", effect }];
}

function balancePolicy({ service: { balancing }, port: { balance } }: PolicyContext): ExplainedPolicy[] {
  if (balance === undefined && balancing === undefined) return [];
  const asked = balancing === undefined
    ? "set for all services"
    : Object.entries(balanceAnnotations(balancing)).map(([key, value]) => `${key}: ${value.replaceAll(/\s+/g, " ")}`)
      .join("; ");
  return [{ name: "balance", value: balance === undefined ? "default" : balanceText(balance), effect: asked }];
}

function sourceRangePolicy({ service, port }: PolicyContext): ExplainedPolicy[] {
  if (service.sourceRanges.length === 0) return [];
  const value = service.sourceRanges.join(", ");
  const effect = port.loadBalancerSources !== undefined
    ? "other sources are dropped"
    : service.sourceRanges.some((range) => isEverything(range, port.clusterIP))
    ? "one of them is every address, so every source is admitted"
    : "none of them is of this family, so every source is admitted";
  return [{ name: "loadBalancerSourceRanges", value, effect }];
}

/** Whether a prefix contains every address of the family of `address`. */
function isEverything(prefix: string, address: string): boolean {
  return prefix.endsWith("/0") && familyOf(prefix) === familyOf(address);
}

function nodePortPolicy({ settings: { nodePortPrefixes } }: PolicyContext): ExplainedPolicy[] {
  if (nodePortPrefixes === undefined) return [];
  const effect = "only addresses of this node in these prefixes serve node ports";
  return [{ name: "nodePortAddresses", value: nodePortPrefixes.join(", ") || NO_PREFIXES, effect }];
}

function masqueradePolicy({ settings }: PolicyContext): ExplainedPolicy[] {
  if (!settings.masqueradeAll) return [];
  return [{ name: "masqueradeAll", value: "true", effect: "endpoints see this node's address as the client's" }];
}
