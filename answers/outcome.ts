/** The outcome of a connection: its data, its wording, and how rules, virtual servers and the relay decide it. */
import { choiceText, sharesOfPolicy } from "./balance.ts";
import type { Destination, FrontendHit } from "./frontend.ts";
import type { Origin } from "./question.ts";
import type { ModeDescription, ModeRelay, ModeTraffic, RuleTraffic } from "../backends/contract/mod.ts";
import { type Balance, type FamilySettings, isFrontendAt, type Protocol, type ServicePort } from "../core/model/mod.ts";
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

const REASONS = {
  "endpoints": "there are endpoints",
  "no-endpoints": "no usable endpoint",
  "no-local-endpoints": "traffic policy Local, and this node has no usable endpoint",
  "source-range": "the source is not in the load balancer's source ranges",
  "unused-port": "a cluster IP, but no service has this port",
  "unused-service-port": "an address of a service, but no service has this port there",
  "unused-address": "in a range of cluster IPs, but no service has this address",
  "no-service": "no service has this address and port",
  "not-relayed": "no usable endpoint, so Sluice does not listen there; another program that does answers",
  // `refusesOwnTraffic`; the mode's name replaces MODE.
  "not-refused-here": "no usable endpoint, but MODE mode does not refuse this node's own traffic",
} as const;

const MASQUERADED = {
  "masquerade-all": "configured for all traffic to cluster IPs (masqueradeAll)",
  "not-from-local-pod": "not from a pod of this node, so replies must come back through this node",
  "external-policy-cluster": "external traffic policy Cluster; the endpoint may be on another node",
  "relayed": "the relay connects from this node's own address",
  "from-this-node": "this node's own traffic to an external address may go to any endpoint",
} as const;

/** The reasons why a connection keeps its source address, in words. */
const KEPT = {
  "from-local-pod": "from a pod of this node",
  // All traffic counts as local then.
  "local-traffic-unknown": "detection of pods' traffic is not configured (detectLocalMode, clusterCIDR)",
  "external-policy-local": "external traffic policy Local keeps the client's address",
} as const;

/** The outcome of a new connection from one source. */
export interface Outcome {
  readonly from: Source;
  readonly fate: Fate;
  readonly reason: keyof typeof REASONS;
  /** The traffic policy that chose the endpoints. */
  readonly policy: "cluster" | "local" | undefined;
  readonly endpoints: readonly string[];
  /** How one of them is chosen; absent for the default of the mode. */
  readonly balance?: Balance;
  /** The admitted sources; others are dropped. Undefined if every source, or the one in the question, is admitted. */
  readonly onlySources: readonly string[] | undefined;
  /** Whether and why the connection is masqueraded; undefined unless it is balanced. */
  readonly masquerade:
    | { readonly applies: true; readonly reason: keyof typeof MASQUERADED }
    | { readonly applies: false; readonly reason: keyof typeof KEPT }
    | undefined;
  /** The endpoints that are the client itself: connections to them are always masqueraded, so that replies come back. */
  readonly hairpin: readonly string[];
}

const ORIGIN_NAMES: Readonly<Record<Origin, string>> = {
  pod: "a pod of this node",
  node: "this node",
  outside: "outside",
};

/** The client of a connection: `a pod of this node`, `outside (198.51.100.7)`. */
export function clientText({ origin, address }: Source): string {
  return address === undefined ? ORIGIN_NAMES[origin] : `${ORIGIN_NAMES[origin]} (${address})`;
}

/** The outcome of a connection in words: `goes to one of 3 endpoints with equal probability`. */
export function fateText({ fate, reason, policy, endpoints, balance }: Outcome, mode: string): string {
  if (fate === "balanced") {
    const whose = policy === "local" ? " on this node" : "";
    return endpoints.length === 1
      ? `goes to ${endpoints[0]}`
      : `goes to one of ${endpoints.length} endpoints${whose} ${choiceText(balance)}`;
  }
  return `${fate === "untouched" ? "passes" : "is"} ${fate}: ${REASONS[reason].replace("MODE", mode)}`;
}

/** Whether a connection is masqueraded, and why, a line each; none if it reaches no endpoint. */
export function masqueradeTexts({ masquerade, hairpin, endpoints }: Outcome): readonly string[] {
  if (masquerade === undefined) return [];
  if (masquerade.applies) return [`masqueraded: ${MASQUERADED[masquerade.reason]}`];
  if (hairpin.length > 0 && hairpin.length === endpoints.length) {
    return ["masqueraded: the endpoint is the client itself, so replies must come back through this node"];
  }
  const kept = `not masqueraded: ${KEPT[masquerade.reason]}`;
  return hairpin.length === 0 ? [kept] : [kept, `masqueraded only to ${hairpin.join(", ")}, the client itself`];
}

/** The outcome of a new connection; the planner has decided all that does not depend on its source. */
export function outcomeOf(
  destination: Destination,
  from: Source,
  settings: FamilySettings,
  { traffic, relay }: ModeDescription,
  protocol: Protocol,
): Outcome {
  const { hit } = destination;
  const relayed = isRelayed(destination, protocol, relay);
  if (hit && relayed && relay === "localhost-node-ports") {
    // The relay serves it without rules. All traffic at localhost is the node's own, which may use every endpoint.
    const { port } = hit;
    if (port.clusterEndpoints.length === 0) return stopped(from, "untouched", "not-relayed");
    return throughRelay(balanced(port, "cluster", from, undefined));
  }
  const outcome = hit === undefined
    ? toNoService(destination, from, settings, traffic)
    : hit.frontend.kind === "clusterIP"
    ? toClusterIP(hit.port, from, settings, traffic)
    : traffic.by === "virtual-servers"
    ? toExternalServer(hit, from)
    : toExternal(hit, destination, from, settings, traffic);
  return relayed ? throughRelay(outcome) : outcome;
}

/** Whether the relay carries connections to a destination in a mode with this relay. It carries no SCTP. */
export function isRelayed({ address, hit }: Destination, protocol: Protocol, relay: ModeRelay): boolean {
  if (hit === undefined || protocol === "sctp" || relay === "none") return false;
  return relay === "services" || hit.frontend.kind === "nodePort" && isLoopback(address);
}

/** The outcome of a connection that goes to the relay instead of an endpoint. */
function throughRelay(outcome: Outcome): Outcome {
  if (outcome.fate !== "balanced") return outcome;
  return { ...outcome, masquerade: { applies: true, reason: "relayed" }, hairpin: [] };
}

/** Whether a connection counts as one from a pod of this node (kube-proxy's detectLocalMode). */
function isLocalTraffic({ origin, address }: Source, { localTraffic }: FamilySettings): boolean {
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
function balanced(
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
function stopped(from: Source, fate: Exclude<Fate, "balanced">, reason: Outcome["reason"]): Outcome {
  const nothing = { policy: undefined, endpoints: [], onlySources: undefined, masquerade: undefined, hairpin: [] };
  return { from, fate, reason, ...nothing };
}

function toNoService(
  { address, isClusterIP, isBound, isThisNode, unserved }: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: ModeTraffic,
): Outcome {
  if (traffic.by === "virtual-servers") {
    // Service addresses are bound to the node; their other ports are closed.
    if (!isBound) return stopped(from, "untouched", "no-service");
    return stopped(from, "rejected", isClusterIP ? "unused-port" : "unused-service-port");
  }
  if (unserved && traffic.refusesEverywhere && isFrontendAt(unserved.frontend, address)) {
    const { verdict } = unserved.frontend;
    if (verdict === "reject") return stopped(from, "rejected", "no-endpoints");
    if (verdict === "drop") return stopped(from, "dropped", "no-local-endpoints");
  }
  const isOfServices = settings.serviceRanges.some((range) => prefixContains(range, address));
  if (!isClusterIP && isOfServices && !isThisNode) return stopped(from, "dropped", "unused-address");
  if (!isClusterIP) return stopped(from, "untouched", "no-service");
  return stopped(from, traffic.unusedPort, "unused-port");
}

function toClusterIP(port: ServicePort, from: Source, settings: FamilySettings, { by }: ModeTraffic): Outcome {
  if (port.internal === "reject") return stopped(from, "rejected", "no-endpoints");
  // A virtual server rejects connections if its list of endpoints is empty.
  if (port.internal === "drop") {
    return stopped(from, by === "virtual-servers" ? "rejected" : "dropped", "no-local-endpoints");
  }
  // The node's own traffic leaves a virtual server with the cluster IP as its source, which other nodes cannot answer.
  const isUnanswered = by === "virtual-servers" && settings.localTraffic.by === "none" && from.origin === "node";
  const masquerade = isUnanswered && !settings.masqueradeAll
    ? { applies: true, reason: "not-from-local-pod" } as const
    : clusterIPMasquerade(from, settings);
  return balanced(port, port.internal, from, masquerade);
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

/**
 * The outcome of a connection to an external IP, a load balancer IP or a node port in a mode with virtual servers (IPVS), as
 * in kube-proxy: a virtual server has one list of endpoints for all clients.
 */
function toExternalServer({ frontend, port }: FrontendHit, from: Source): Outcome {
  const { verdict, sources } = frontend;
  // The node's own traffic reaches the virtual server before any rule.
  if (verdict === "reject" && from.origin === "node") return stopped(from, "rejected", "no-endpoints");
  if (sources && !isAdmitted(from, sources, port)) return stopped(from, "dropped", "source-range");
  const onlySources = from.address === undefined ? sources : undefined;
  if (verdict === "reject") return { ...stopped(from, "rejected", "no-endpoints"), onlySources };
  const outcome = verdict === "cluster"
    ? balanced(port, "cluster", from, { applies: true, reason: "external-policy-cluster" })
    // Without endpoints on this node, its pods still reach endpoints on other nodes (kubernetes PR 97081).
    : balanced(port, verdict === "drop" ? "cluster" : "local", from, {
      applies: false,
      reason: "external-policy-local",
    });
  return { ...outcome, onlySources };
}

/** The node's own traffic is not checked against the ranges: it is admitted if the node's address is in them. */
function isAdmitted({ origin, address }: Source, sources: readonly string[], port: ServicePort): boolean {
  if (origin === "node") return port.loadBalancerSources?.includeNode !== false;
  return address === undefined || sources.some((range) => prefixContains(range, address));
}

/** A note about a relayed connection. */
export function relayRemark(protocol: Protocol): string {
  const carried =
    "Sluice itself carries this traffic (relay): the endpoint sees this node's address instead of the client's";
  if (protocol === "udp") return carried;
  return `${carried}; if an endpoint refuses, or does not answer at once, the next one is tried`;
}
