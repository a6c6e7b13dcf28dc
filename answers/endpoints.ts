/** How a service port chooses its endpoints: the fate of each, and the policies of its frontends. */
import type { AnswerBasis } from "./basis.ts";
import { balanceText, sharesByTarget } from "./balance.ts";
import type { ExplainedEndpoint, ExplainedPolicy } from "./explanation.ts";
import { NO_OWN_PREFIXES, NO_PREFIXES } from "./frontend.ts";
import type { FamilySettings, Frontend, ServicePort } from "../core/model/mod.ts";
import { OWN_ANNOTATIONS, ownAnnotations, type Service, type ServicePortSpec } from "../core/objects/mod.ts";
import {
  BALANCE_ANNOTATIONS,
  type EndpointExplanation,
  type EndpointFate,
  explainEndpoints as explainFates,
  isUsed,
  type NodeContext,
  servicePortName,
  trafficPolicies,
} from "../core/planning/mod.ts";
import { type ServiceKey, serviceKey } from "../core/tracking/mod.ts";
import { familyOf } from "../platform/mod.ts";

/** The endpoints of a service port with the fate of each, and how they were chosen. */
interface ExplainedEndpoints extends Pick<EndpointExplanation, "topology" | "ignoredHints"> {
  readonly endpoints: readonly ExplainedEndpoint[];
}

interface ExplainedPort {
  readonly service: Service;
  readonly spec: ServicePortSpec;
  readonly node: NodeContext;
  readonly port: ServicePort;
}

/** The port to explain; undefined if the service has changed since it was planned. */
export function portOf(
  { tracking, nodeName }: Pick<AnswerBasis, "tracking" | "nodeName">,
  key: ServiceKey,
  port: ServicePort,
): ExplainedPort | undefined {
  const service = tracking.services.get(key);
  const spec = service?.ports.findLast((spec) =>
    spec.protocol === port.protocol && servicePortName(service, spec) === port.name
  );
  return service && spec && { service, spec, node: { name: nodeName, zone: tracking.node.state().zone }, port };
}

/** Explains which endpoints of a service port are used, and why; of these policies, by default of all in use. */
export function explainServiceEndpoints(
  { tracking, families }: Pick<AnswerBasis, "tracking" | "families">,
  { service, spec, node, port }: ExplainedPort,
  policies?: ReadonlySet<"cluster" | "local">,
): ExplainedEndpoints {
  const family = familyOf(port.clusterIP);
  const { use } = trafficPolicies(service, family, spec);
  const key = serviceKey(service.namespace, service.name);
  const known = tracking.endpoints[family].endpointsOf(key, spec.name, spec.protocol);
  const unreachable = new Set(port.unreachableEndpoints);
  const { topology, ignoredHints, endpoints: fates } = explainFates(known, use, node, unreachable);
  const allShares = sharesByTarget(port, families[family].planner.openConnections);
  const endpoints = known.map(({ target, endpoint }, i): ExplainedEndpoint => {
    const { cluster, local } = fates[i]!, shares = allShares.get(target);
    const hasNoWeight = shares !== undefined && !shares.cluster && !shares.local;
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

/** The settings that affect connections to a frontend, with the effect of each. */
export function policiesOf(
  { service, spec, node, port }: ExplainedPort,
  { kind, destinations }: Frontend,
  { topology, ignoredHints }: ExplainedEndpoints,
  { nodePortPrefixes, masqueradeAll }: FamilySettings,
): readonly ExplainedPolicy[] {
  const policies: ExplainedPolicy[] = [];
  const add = (name: string, value: string, effect: string) => policies.push({ name, value, effect });
  const anyEndpoint = "any usable endpoint in the cluster may serve";
  if (kind === "clusterIP") {
    const local = service.internalPolicyLocal && localEffect(port);
    add("internalTrafficPolicy", local ? "Local" : "Cluster", local || anyEndpoint);
  } else if (trafficPolicies(service, familyOf(port.clusterIP), spec).externalLocal) {
    const effect = `${localEffect(port)}; this node and its pods may use endpoints of the whole cluster`;
    add("externalTrafficPolicy", "Local", effect);
  } else {
    add("externalTrafficPolicy", "Cluster", `${anyEndpoint}, and sees this node's address as the client's`);
  }
  const hints = ignoredHints.join("; ");
  if (topology === "same-node") {
    add("trafficDistribution", "same node", `hints keep traffic on node ${node.name}`);
  } else if (topology === "same-zone") {
    add("trafficDistribution", "same zone", `hints keep traffic in zone ${node.zone}${hints && `; ${hints}`}`);
  } else if (hints !== "") add("trafficDistribution", "hints ignored", hints);
  if (port.affinitySeconds > 0) {
    const effect =
      `a client address stays with its endpoint for ${port.affinitySeconds} s after its last new connection`;
    add("sessionAffinity", "ClientIP", effect);
  }
  const { own = {}, sourceRanges } = service;
  const asked = Object.entries(ownAnnotations(own, BALANCE_ANNOTATIONS))
    .map(([key, value]) => `${key}: ${value.replaceAll(/\s+/g, " ")}`).join("; ");
  if (port.balance !== undefined || asked !== "") {
    add("balance", port.balance ? balanceText(port.balance) : "default", asked || "set for all services");
  }
  if (kind === "loadBalancerIP" && sourceRanges.length > 0) {
    const effect = port.loadBalancerSources !== undefined
      ? "other sources are dropped"
      : sourceRanges.some((range) => range.endsWith("/0") && familyOf(range) === familyOf(port.clusterIP))
      ? "one of them is every address, so every source is admitted"
      : "none of them is of this family, so every source is admitted";
    add("loadBalancerSourceRanges", sourceRanges.join(", "), effect);
  }
  if (kind === "nodePort" && nodePortPrefixes !== undefined) {
    const value = nodePortPrefixes.join(", ") || NO_PREFIXES;
    add("nodePortAddresses", value, "only addresses of this node in these prefixes serve node ports");
  }
  if (destinations !== undefined) {
    const value = destinations.join(", ") || NO_OWN_PREFIXES;
    add(
      OWN_ANNOTATIONS.nodePortAddresses,
      value,
      "only those of the addresses with node ports that are in these prefixes serve this one",
    );
  }
  if (kind === "clusterIP" && masqueradeAll) {
    add("masqueradeAll", "true", "endpoints see this node's address as the client's");
  }
  return policies;
}

function localEffect({ localEndpoints: { length } }: ServicePort): string {
  if (length === 0) return "only endpoints on this node may serve, and it has none";
  return `only endpoints on this node may serve: ${length}`;
}
