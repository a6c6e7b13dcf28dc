import { prefixContains, splitHostPort } from "../../platform/address.ts";
import type { FamilySettings, ServicePort } from "../model.ts";
import type { Destination, FrontendHit } from "./frontend.ts";
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

/** What holds in a mode where the modes differ; each as in kube-proxy's mode of that name. */
interface ModeRules {
  /** What becomes of a connection to a cluster IP on a port that no service has. */
  readonly unusedPort: "rejected" | "untouched";
  /** Whether what this node itself sends to an external address without endpoints is refused. */
  readonly refusesOwnTraffic: boolean;
  /** Whether a node port without endpoints is refused at all addresses of the node, those that serve none among them. */
  readonly refusesEverywhere: boolean;
}

const MODE_RULES: Readonly<Record<FamilySettings["mode"], ModeRules>> = {
  iptables: { unusedPort: "untouched", refusesOwnTraffic: false, refusesEverywhere: true },
  nftables: { unusedPort: "rejected", refusesOwnTraffic: true, refusesEverywhere: false },
  ipvs: { unusedPort: "rejected", refusesOwnTraffic: true, refusesEverywhere: false },
};

/**
 * What becomes of a new connection to a destination. Everything that could be decided before a packet comes is decided
 * by the planner and read off its service port; this adds what depends on where the packet comes from.
 */
export function wayTo(destination: Destination, from: From, settings: FamilySettings): Way {
  const { hit } = destination;
  if (hit === undefined) return wayToNoService(destination, from, settings);
  return hit.kind === "clusterIP"
    ? wayToClusterIP(hit.port, from, settings)
    : wayFromOutside(hit, destination, from, settings);
}

function wayToNoService(
  { address, isClusterIP, isThisNode, unserved }: Destination,
  from: From,
  settings: FamilySettings,
): Way {
  if (unserved && MODE_RULES[settings.mode].refusesEverywhere) {
    if (unserved.external === "reject") return stopped(from, "rejected", "no-endpoints");
    if (unserved.external === "drop") return stopped(from, "dropped", "no-local-endpoints");
  }
  const isOfServices = settings.serviceRanges.some((range) => prefixContains(range, address));
  if (!isClusterIP && isOfServices && !isThisNode) return stopped(from, "dropped", "unused-address");
  if (!isClusterIP) return stopped(from, "untouched", "no-service");
  return stopped(from, MODE_RULES[settings.mode].unusedPort, "unused-port");
}

function wayToClusterIP(port: ServicePort, from: From, settings: FamilySettings): Way {
  if (port.internal === "reject") return stopped(from, "rejected", "no-endpoints");
  if (port.internal === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, port.internal, from, toClusterIP(from, settings));
}

/** The masquerading of traffic to cluster IPs: what comes from elsewhere must come back this way. */
function toClusterIP(from: From, settings: FamilySettings): Way["masquerade"] {
  if (settings.masqueradeAll) return { applies: true, reason: "masquerade-all" };
  if (settings.localTraffic.by === "none") return { applies: false, reason: "local-traffic-unknown" };
  return isLocalTraffic(from, settings)
    ? { applies: false, reason: "from-local-pod" }
    : { applies: true, reason: "not-from-local-pod" };
}

/** To external IPs, load balancer IPs and node ports. */
function wayFromOutside(hit: FrontendHit, destination: Destination, from: From, settings: FamilySettings): Way {
  const { port } = hit;
  if (port.external === "reject") {
    const isRefused = from.origin !== "node" || destination.isThisNode || MODE_RULES[settings.mode].refusesOwnTraffic;
    return isRefused ? stopped(from, "rejected", "no-endpoints") : stopped(from, "untouched", "not-refused-here");
  }
  const permitted = hit.kind === "loadBalancerIP" ? permittedSources(port, settings) : undefined;
  if (permitted && from.address !== undefined && !permitted.some((range) => prefixContains(range, from.address!))) {
    return stopped(from, "dropped", "source-range");
  }
  const onlySources = from.address === undefined ? permitted : undefined;
  return { ...wayOfExternalPolicy(port, from, settings), onlySources };
}

function wayOfExternalPolicy(port: ServicePort, from: From, settings: FamilySettings): Way {
  if (port.external === "cluster") {
    return balanced(port, "cluster", from, { applies: true, reason: "external-policy-cluster" });
  }
  if (isLocalTraffic(from, settings)) {
    return balanced(port, "cluster", from, { applies: false, reason: "from-local-pod" });
  }
  if (from.origin === "node") return balanced(port, "cluster", from, { applies: true, reason: "from-this-node" });
  if (port.external === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, "local", from, { applies: false, reason: "external-policy-local" });
}

/**
 * The prefixes that may use the load balancer addresses; undefined where all may. Where the node itself is among them, so
 * is what it sends to such an address as if from that address (kube-proxy's rule).
 */
function permittedSources(port: ServicePort, { nodeIP }: FamilySettings): readonly string[] | undefined {
  const { sourceRanges, loadBalancerIPs } = port;
  if (sourceRanges.length === 0 || sourceRanges.some((range) => range.endsWith("/0"))) return undefined;
  if (!sourceRanges.some((range) => prefixContains(range, nodeIP))) return sourceRanges;
  return [...sourceRanges, ...loadBalancerIPs.map((address) => `${address}/${address.includes(":") ? 128 : 32}`)];
}

/** Whether a connection counts as one from a pod of this node, by kube-proxy's detectLocalMode. */
function isLocalTraffic({ origin, address }: From, { localTraffic }: FamilySettings): boolean {
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

function balanced(port: ServicePort, policy: "cluster" | "local", from: From, masquerade: Way["masquerade"]): Way {
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

function stopped(from: From, fate: Exclude<Fate, "balanced">, reason: FateReason): Way {
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
