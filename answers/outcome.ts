import { prefixContains, splitHostPort } from "../platform/mod.ts";
import type { Balance, FamilySettings, ServicePort } from "../core/model/mod.ts";
import type { Origin } from "./question.ts";

/** Where a connection comes from. */
export interface Source {
  readonly origin: Origin;
  /** Undefined for any address of that origin. */
  readonly address: string | undefined;
}

/**
 * The fate of a new connection:
 * - `balanced`: it goes to one of `endpoints`, each with the same probability unless `balance` differs;
 * - `rejected`: the client gets a refusal at once;
 * - `dropped`: the client gets no answer;
 * - `untouched`: no rule matches it, and it follows the routes.
 */
export type Fate = "balanced" | "rejected" | "dropped" | "untouched";

/** The reason for a connection's fate. */
export type FateReason =
  /** The traffic policy has endpoints. */
  | "endpoints"
  /** No endpoint anywhere can serve. */
  | "no-endpoints"
  /** The policy is Local and no endpoint on this node can serve. */
  | "no-local-endpoints"
  /** The source is in none of the load balancer's source ranges. */
  | "source-range"
  /** The address is a cluster IP, and no service has that port. */
  | "unused-port"
  /** The address belongs to a service, other than as its cluster IP, and no service has that port there (virtual servers). */
  | "unused-service-port"
  /** The address is in the ranges of cluster IPs, and no service has it. */
  | "unused-address"
  /** No service has that address and port. */
  | "no-service"
  /** There is no endpoint, but the node's own traffic is not rejected (`refusesOwnTraffic`). */
  | "not-refused-here";

/** The reason why a connection is masqueraded. */
export type MasqueradeReason =
  /** The configuration masquerades all traffic to cluster IPs. */
  | "masquerade-all"
  /** It goes to a cluster IP but does not come from a pod of this node: replies must come back through this node. */
  | "not-from-local-pod"
  /** It goes to an external frontend with traffic policy Cluster: the endpoint may be on another node. */
  | "external-policy-cluster"
  /** The relay connects to the endpoint from an address of this node. */
  | "relayed"
  /** It goes from this node to an external frontend with traffic policy Local: any endpoint may serve it. */
  | "from-this-node";

/** The reason why a connection keeps its source address. */
export type KeepReason =
  /** It comes from a pod of this node. */
  | "from-local-pod"
  /** Detection of pods' traffic is not configured for this family, so all traffic counts as local. */
  | "local-traffic-unknown"
  /** External traffic policy Local keeps the client's address. */
  | "external-policy-local";

/** The outcome of a new connection from one source. */
export interface Outcome {
  readonly from: Source;
  readonly fate: Fate;
  readonly reason: FateReason;
  /** The traffic policy that chose the endpoints. */
  readonly policy: "cluster" | "local" | undefined;
  readonly endpoints: readonly string[];
  /** How one of them is chosen; absent for the default of the mode. */
  readonly balance?: Balance;
  /** The admitted sources; others are dropped. Undefined if every source, or the one in the question, is admitted. */
  readonly onlySources: readonly string[] | undefined;
  /** Whether and why the connection is masqueraded; undefined unless it is balanced. */
  readonly masquerade:
    | { readonly applies: true; readonly reason: MasqueradeReason }
    | { readonly applies: false; readonly reason: KeepReason }
    | undefined;
  /** The endpoints that are the client itself: connections to them are always masqueraded, so that replies come back. */
  readonly hairpin: readonly string[];
}

/** Whether a connection counts as one from a pod of this node (kube-proxy's detectLocalMode). */
export function isLocalTraffic({ origin, address }: Source, { localTraffic }: FamilySettings): boolean {
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

/** The outcome of a connection to the endpoints of a traffic policy. */
export function balanced(
  port: ServicePort,
  policy: "cluster" | "local",
  from: Source,
  masquerade: Outcome["masquerade"],
): Outcome {
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
    ...port.balance && { balance: port.balance },
    onlySources: undefined,
    masquerade,
    hairpin,
  };
}

/** The outcome of a connection that reaches no endpoint. */
export function stopped(from: Source, fate: Exclude<Fate, "balanced">, reason: FateReason): Outcome {
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
