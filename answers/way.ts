import { prefixContains, splitHostPort } from "../platform/mod.ts";
import type { FamilySettings, ServicePort } from "../core/model/mod.ts";
import type { Origin } from "./question.ts";

/** Where a connection comes from. */
export interface From {
  readonly origin: Origin;
  /** Its source address; undefined where any of that origin is meant. */
  readonly address: string | undefined;
}

/**
 * What becomes of a new connection:
 * - `balanced`: it goes to one of `endpoints`, each with the same chance;
 * - `rejected`: its sender is told at once that nobody is there;
 * - `dropped`: it gets no answer;
 * - `untouched`: no rule is for it, and it goes where routes lead.
 */
export type Fate = "balanced" | "rejected" | "dropped" | "untouched";

/** Why that is so. */
export type FateReason =
  /** The policy has endpoints for it. */
  | "endpoints"
  /** No endpoint anywhere can serve. */
  | "no-endpoints"
  /** The policy is Local and no endpoint on this node can serve. */
  | "no-local-endpoints"
  /** The source is in none of the load balancer's source ranges. */
  | "source-range"
  /** It is a service's cluster IP, and no service has that port. */
  | "unused-port"
  /** It is another address of a service, and no service has that port there (IPVS mode). */
  | "unused-service-port"
  /** It is of the ranges that cluster IPs are taken from, and no service's. */
  | "unused-address"
  /** No service has that address and port. */
  | "no-service"
  /** There is no endpoint, and what this node sends itself is not refused on its way out (iptables mode). */
  | "not-refused-here";

/** Why the source address becomes one of this node's. */
export type MasqueradeReason =
  /** Configured for all traffic to cluster IPs. */
  | "masquerade-all"
  /** To a cluster IP, and not from a pod of this node: the answer must come back this way. */
  | "not-from-local-pod"
  /** To an external frontend with policy Cluster: the endpoint may be on another node. */
  | "external-policy-cluster"
  /** To an external frontend with policy Local, from this node itself: any endpoint may serve. */
  | "from-this-node";

/** Why the source address stays. */
export type KeepReason =
  /** It comes from a pod of this node. */
  | "from-local-pod"
  /** How pods' traffic is told is not configured for this family, so that nothing is taken for foreign. */
  | "local-traffic-unknown"
  /** External traffic policy Local keeps the client's address. */
  | "external-policy-local";

/** What becomes of a new connection from one origin. */
export interface Way {
  readonly from: From;
  readonly fate: Fate;
  readonly reason: FateReason;
  /** Whose endpoints serve it. */
  readonly policy: "cluster" | "local" | undefined;
  readonly endpoints: readonly string[];
  /** Only these sources get through, others are dropped; undefined where that is no question. */
  readonly onlySources: readonly string[] | undefined;
  /** Whether every connection of this way is masqueraded, and why or why not; undefined where none gets through. */
  readonly masquerade:
    | { readonly applies: true; readonly reason: MasqueradeReason }
    | { readonly applies: false; readonly reason: KeepReason }
    | undefined;
  /** The endpoints that are the sender itself: to them it is masqueraded in any case, so that the answer comes back. */
  readonly hairpin: readonly string[];
}

/**
 * The prefixes that may use the load balancer addresses; undefined where all may. Where the node itself is among them, so
 * is what it sends to such an address as if from that address (kube-proxy's rule).
 */
export function permittedSources(port: ServicePort, settings: FamilySettings): readonly string[] | undefined {
  const { sourceRanges, loadBalancerIPs } = port;
  if (sourceRanges.length === 0) return undefined;
  if (!nodeMayEnter(port, settings)) return sourceRanges;
  return [...sourceRanges, ...loadBalancerIPs.map((address) => `${address}/${address.includes(":") ? 128 : 32}`)];
}

/** Whether the node's own address is in the source ranges. */
export function nodeMayEnter({ sourceRanges }: ServicePort, { nodeIP }: FamilySettings): boolean {
  return sourceRanges.some((range) => prefixContains(range, nodeIP));
}

/** Whether a connection counts as one from a pod of this node, by kube-proxy's detectLocalMode. */
export function isLocalTraffic({ origin, address }: From, { localTraffic }: FamilySettings): boolean {
  switch (localTraffic.by) {
    case "none":
      return false;
    case "source-prefix":
      return address === undefined
        ? origin === "pod" || localTraffic.prefix.endsWith("/0")
        : prefixContains(localTraffic.prefix, address);
    case "bridge":
    case "interface-prefix":
      return origin === "pod";
  }
}

/** It goes to the endpoints of a policy. */
export function balanced(
  port: ServicePort,
  policy: "cluster" | "local",
  from: From,
  masquerade: Way["masquerade"],
): Way {
  const endpoints = policy === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const hairpin = endpoints.filter((endpoint) =>
    port.endpointsOnThisNode.includes(endpoint) && splitHostPort(endpoint).address === from.address
  );
  return {
    from,
    fate: "balanced",
    reason: "endpoints",
    policy,
    endpoints,
    onlySources: undefined,
    masquerade,
    hairpin,
  };
}

/** It goes to no endpoint. */
export function stopped(from: From, fate: Exclude<Fate, "balanced">, reason: FateReason): Way {
  return {
    from,
    fate,
    reason,
    policy: undefined,
    endpoints: [],
    onlySources: undefined,
    masquerade: undefined,
    hairpin: [],
  };
}
