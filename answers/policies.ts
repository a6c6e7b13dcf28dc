import { familyOf } from "../platform/mod.ts";
import type { FamilySettings, FrontendKind, ServicePort } from "../core/model/mod.ts";
import { balanceAnnotations, type Service, type ServicePortSpec } from "../core/objects/mod.ts";
import { balanceText } from "./balance.ts";
import { type NodeContext, trafficPolicies } from "../core/planning/mod.ts";
import type { ExplainedEndpoints } from "./endpoints.ts";
import type { ExplainedPolicy } from "./explanation.ts";

/** The data that the policies of a frontend are explained from. */
export interface PolicyContext {
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
  return [{ name: "nodePortAddresses", value: nodePortPrefixes.join(", "), effect }];
}

function masqueradePolicy({ settings }: PolicyContext): ExplainedPolicy[] {
  if (!settings.masqueradeAll) return [];
  return [{ name: "masqueradeAll", value: "true", effect: "endpoints see this node's address as the client's" }];
}
