import {
  type Family,
  type FamilySettings,
  type Frontend,
  frontendsOf,
  isPolicyLocal,
  type ServicePort,
} from "../../core/model/mod.ts";
import { prefixContains, splitHostPort } from "../../platform/mod.ts";
import { type Entry, entryOf, NODE_PORT_SETS, type SetKind } from "./sets.ts";
import { serverDefinition, type ServerKey, serverKey, type VirtualServer } from "./virtual_servers.ts";

/** The circumstances of this node that a contribution depends on. */
export interface Circumstances {
  readonly family: Family;
  readonly settings: FamilySettings;
  readonly scheduler: string;
  /** This node's own addresses, without those of the dummy interface. */
  readonly nodeAddresses: readonly string[];
}

/** Everything that one service port needs in the kernel. */
export interface Contribution {
  readonly servers: ReadonlyMap<ServerKey, VirtualServer>;
  /** Addresses of the dummy interface. */
  readonly addresses: ReadonlySet<string>;
  readonly entries: ReadonlySet<Entry>;
  /** Load balancer frontends that the node itself must not use, as `address protocol port`. */
  readonly closedToNode: readonly string[];
}

/** The contribution of a service port. */
export function contributionOf(port: ServicePort, circumstances: Circumstances): Contribution {
  const { family, scheduler, nodeAddresses } = circumstances;
  const servers = new Map<ServerKey, VirtualServer>();
  const addresses = new Set<string>();
  const entries = new Set<Entry>();
  const closedToNode: string[] = [];
  const definition = serverDefinition(schedulerOf(port, scheduler), port.affinitySeconds, port.balance?.hash);
  const enter = (kind: SetKind, element: string) => entries.add(entryOf(kind, family, element));
  const serve = (address: string, number: number, reals: Pick<VirtualServer, "realServers" | "weights">) => {
    const key = serverKey(port.protocol, address, number);
    if (!servers.has(key)) servers.set(key, { definition, ...reals });
  };
  const bind = (address: string) => {
    addresses.add(address);
    enter("boundAddresses", address);
  };
  // An address of the node must not be on a second interface (kube-proxy's rule).
  const isNodes = (address: string) => nodeAddresses.includes(address);
  const at = (address: string) => `${address},${port.protocol}:${port.port}`;
  const keepsSource = isPolicyLocal(port.external);

  for (const endpoint of port.endpointsOnThisNode) {
    const { address, port: number } = splitHostPort(endpoint);
    enter("loopBack", `${address},${port.protocol}:${number},${address}`);
  }
  for (const frontend of frontendsOf(port)) {
    const { kind, address } = frontend;
    const reals = realServersOf(port, frontend);
    if (kind === "nodePort") {
      const { all, local } = NODE_PORT_SETS[port.protocol];
      for (const own of nodePortAddresses(circumstances)) {
        serve(own, port.nodePort, reals);
        const element = port.protocol === "sctp" ? `${own},sctp:${port.nodePort}` : String(port.nodePort);
        enter(all, element);
        if (keepsSource) enter(local, element);
      }
      continue;
    }
    serve(address, port.port, reals);
    if (kind === "clusterIP" || !isNodes(address)) bind(address);
    if (kind === "clusterIP") enter("clusterIP", at(address));
    if (kind === "externalIP") enter(keepsSource ? "externalIPLocal" : "externalIP", at(address));
    if (kind === "loadBalancerIP") {
      enter("loadBalancer", at(address));
      if (keepsSource) enter("loadBalancerLocal", at(address));
      for (const [set, element] of firewallEntries(port, address)) enter(set, element);
      if (port.loadBalancerSources?.includeNode === false) {
        closedToNode.push(`${address} ${port.protocol} ${port.port}`);
      }
    }
  }
  if (port.healthCheckNodePort !== 0) enter("healthCheckNodePort", String(port.healthCheckNodePort));
  return { servers, addresses, entries, closedToNode };
}

/** This node's addresses that serve node ports. */
export function nodePortAddresses({ settings, nodeAddresses }: Circumstances): readonly string[] {
  const { nodePortPrefixes } = settings;
  if (!nodePortPrefixes) return nodeAddresses;
  return nodeAddresses.filter((address) => nodePortPrefixes.some((prefix) => prefixContains(prefix, address)));
}

/**
 * The real servers of a frontend. Its virtual server has one list for all clients, and rejects connections if it is
 * empty. With external traffic policy Local it lists the endpoints of this node. If there are none it lists those of
 * other nodes, so that this node's pods reach them; other clients get no reply from those (kubernetes PR 97081).
 */
function realServersOf(
  { clusterEndpoints, localEndpoints, balance }: ServicePort,
  { verdict, ownVerdict }: Frontend,
): Pick<VirtualServer, "realServers" | "weights"> {
  if (verdict === "local") return weighted(localEndpoints, balance?.localWeights);
  return ownVerdict === "cluster" ? weighted(clusterEndpoints, balance?.clusterWeights) : { realServers: [] };
}

/** Real servers with their weights. One of weight 0 would be terminating, so that it is left out. */
function weighted(
  endpoints: readonly string[],
  weights: readonly number[] | undefined,
): Pick<VirtualServer, "realServers" | "weights"> {
  if (weights === undefined) return { realServers: endpoints };
  return {
    realServers: endpoints.filter((_, i) => weights[i] !== 0),
    weights: weights.filter((weight) => weight !== 0),
  };
}

/** The schedulers for the algorithms that other modes know as well. */
const SCHEDULERS: Readonly<Record<string, string>> = {
  "round-robin": "rr",
  "least-connections": "lc",
  "maglev": "mh",
};

/** The schedulers that ignore weights, and those that do the same with weights. */
const WITH_WEIGHTS: Readonly<Record<string, string>> = { rr: "wrr", lc: "wlc" };

function schedulerOf({ balance }: ServicePort, configured: string): string {
  if (balance === undefined) return configured;
  // IPVS has no random choice: the planner asks for none, but a plan for another mode may.
  const scheduler = balance.algorithm === "random" ? configured : SCHEDULERS[balance.algorithm] ?? balance.algorithm;
  const isWeighted = balance.clusterWeights !== undefined || balance.localWeights !== undefined;
  return isWeighted ? WITH_WEIGHTS[scheduler] ?? scheduler : scheduler;
}

/** The set entries that restrict a load balancer IP to some sources. */
function firewallEntries(
  { protocol, port, loadBalancerSources: sources }: ServicePort,
  address: string,
): [SetKind, string][] {
  if (sources === undefined) return [];
  const frontend = `${address},${protocol}:${port}`;
  return [
    ["loadBalancerFirewall", frontend],
    ...sources.ranges.map((range): [SetKind, string] => [
      "loadBalancerSourceRange",
      `${frontend},${range.replace(address.includes(":") ? /\/128$/ : /\/32$/, "")}`,
    ]),
    // kube-proxy's rule: each address admits itself alone here, unlike `admittedSources`.
    ...(sources.includeNode ? [["loadBalancerSourceIP", `${frontend},${address}`] satisfies [SetKind, string]] : []),
  ];
}
