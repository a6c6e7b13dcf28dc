/** The outcome of a connection: its data, and how rules and the relay decide it. */
import { sharesOfPolicy } from "./balance.ts";
import type { Destination, FrontendHit } from "./frontend.ts";
import type { Origin } from "./question.ts";
import type { ModeRelay, RuleTraffic } from "../backends/contract/mod.ts";
import type { Balance, FamilySettings, Protocol, ServicePort } from "../core/model/mod.ts";
import { isLoopback, prefixContains, splitHostPort } from "../platform/mod.ts";

/** Where a connection comes from. */
export interface Source {
  readonly origin: Origin;
  /** Undefined for any address of the origin. */
  readonly address: string | undefined;
}

/**
 * The fate of a new connection:
 * - `balanced`: it goes to one of `endpoints`, each with the same probability unless `balance` differs;
 * - `rejected`: the client gets a refusal at once;
 * - `dropped`: the client gets no answer;
 * - `untouched`: no rule matches it, and it follows the routes.
 */
type Fate = "balanced" | "rejected" | "dropped" | "untouched";

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
  const shares = port.balance && sharesOfPolicy(port, policy);
  const endpoints = (policy === "cluster" ? port.clusterEndpoints : port.localEndpoints)
    .filter((_, i) => shares?.[i] !== 0);
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

/** The outcome of a new connection in a mode with rules. */
export function outcomeByRules(
  destination: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: RuleTraffic,
): Outcome {
  const { hit } = destination;
  if (hit === undefined) return toNoService(destination, from, settings, traffic);
  return hit.frontend.kind === "clusterIP"
    ? toClusterIP(hit.port, from, settings)
    : toExternal(hit, destination, from, settings, traffic);
}

function toNoService(
  { address, isClusterIP, isThisNode, unserved }: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: RuleTraffic,
): Outcome {
  if (unserved && traffic.refusesEverywhere) {
    if (unserved.external === "reject") return stopped(from, "rejected", "no-endpoints");
    if (unserved.external === "drop") return stopped(from, "dropped", "no-local-endpoints");
  }
  const isOfServices = settings.serviceRanges.some((range) => prefixContains(range, address));
  if (!isClusterIP && isOfServices && !isThisNode) return stopped(from, "dropped", "unused-address");
  if (!isClusterIP) return stopped(from, "untouched", "no-service");
  return stopped(from, traffic.unusedPort, "unused-port");
}

function toClusterIP(port: ServicePort, from: Source, settings: FamilySettings): Outcome {
  if (port.internal === "reject") return stopped(from, "rejected", "no-endpoints");
  if (port.internal === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, port.internal, from, clusterIPMasquerade(from, settings));
}

/** Whether traffic to cluster IPs is masqueraded: replies to traffic from elsewhere must come back through this node. */
function clusterIPMasquerade(from: Source, settings: FamilySettings): Outcome["masquerade"] {
  if (settings.masqueradeAll) return { applies: true, reason: "masquerade-all" };
  if (settings.localTraffic.by === "none") return { applies: false, reason: "local-traffic-unknown" };
  return isLocalTraffic(from, settings)
    ? { applies: false, reason: "from-local-pod" }
    : { applies: true, reason: "not-from-local-pod" };
}

/** The outcome of a connection to an external IP, a load balancer IP or a node port. */
function toExternal(
  hit: FrontendHit,
  destination: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: RuleTraffic,
): Outcome {
  const { frontend } = hit;
  const { refusesOwnTraffic, checksSourcesFirst } = traffic;
  const admitted = checksSourcesFirst || frontend.verdict !== "reject" ? frontend.sources : undefined;
  if (admitted && from.address !== undefined && !admitted.some((range) => prefixContains(range, from.address!))) {
    return stopped(from, "dropped", "source-range");
  }
  const onlySources = from.address === undefined ? admitted : undefined;
  if (frontend.verdict === "reject") {
    const isRefused = from.origin !== "node" || destination.isThisNode || refusesOwnTraffic;
    if (!isRefused) return stopped(from, "untouched", "not-refused-here");
    return { ...stopped(from, "rejected", "no-endpoints"), onlySources };
  }
  const outcome = byExternalPolicy(hit, from, settings);
  if (!destination.isClusterIP || !traffic.masqueradesByAddress || !outcome.masquerade) {
    return { ...outcome, onlySources };
  }
  const byAddress = clusterIPMasquerade(from, settings);
  return { ...outcome, onlySources, masquerade: byAddress?.applies ? byAddress : outcome.masquerade };
}

function byExternalPolicy({ frontend, port }: FrontendHit, from: Source, settings: FamilySettings): Outcome {
  const { verdict, ownVerdict } = frontend;
  if (verdict === "cluster") {
    return balanced(port, "cluster", from, { applies: true, reason: "external-policy-cluster" });
  }
  if (ownVerdict === "cluster" && isLocalTraffic(from, settings)) {
    return balanced(port, "cluster", from, { applies: false, reason: "from-local-pod" });
  }
  if (ownVerdict === "cluster" && from.origin === "node") {
    return balanced(port, "cluster", from, { applies: true, reason: "from-this-node" });
  }
  if (verdict === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, "local", from, { applies: false, reason: "external-policy-local" });
}

/** Whether the relay carries connections to a destination in a mode with this relay. It carries no SCTP. */
export function isRelayed({ address, hit }: Destination, protocol: Protocol, relay: ModeRelay): boolean {
  if (hit === undefined || protocol === "sctp" || relay === "none") return false;
  return relay === "services" || hit.frontend.kind === "nodePort" && isLoopback(address);
}

/**
 * The outcome of a connection to a node port at localhost that the relay serves without rules: all traffic there is the node's
 * own, which may use every endpoint.
 */
export function outcomeAtLocalhost({ hit }: Destination, from: Source): Outcome {
  const port = hit!.port;
  if (port.clusterEndpoints.length === 0) return stopped(from, "rejected", "no-endpoints");
  return throughRelay(balanced(port, "cluster", from, undefined));
}

/** The outcome of a connection that the rules send to the relay instead of an endpoint. */
export function throughRelay(outcome: Outcome): Outcome {
  if (outcome.fate !== "balanced") return outcome;
  return { ...outcome, masquerade: { applies: true, reason: "relayed" }, hairpin: [] };
}

/** A note about a relayed connection. */
export function relayRemark(protocol: Protocol): string {
  const carried =
    "Sluice itself carries this traffic (relay): the endpoint sees this node's address instead of the client's";
  if (protocol === "udp") return carried;
  return `${carried}; if an endpoint refuses, or does not answer at once, the next one is tried`;
}
