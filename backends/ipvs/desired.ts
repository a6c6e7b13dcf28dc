import {
  type Family,
  type FamilyDelta,
  type FamilySettings,
  type Frontend,
  frontendsOf,
  isFrontendAt,
  isPolicyLocal,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "../../core/model/mod.ts";
import { prefixContains, prefixText, splitHostPort } from "../../platform/mod.ts";
import type { Refusals } from "../reconcile/mod.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import { type Entry, entryOf, NODE_PORT_SETS, type SetKind } from "./sets.ts";
import { serverDefinition, type ServerKey, serverKey, type VirtualServer, weightsOf } from "./virtual_servers.ts";

/** The desired state that deltas build up, and where the kernel may differ from it. Pure, without effects. */
export interface Desired {
  apply(delta: FamilyDelta): void;
  /** This node's own addresses, sorted. */
  setNodeAddresses(addresses: readonly string[]): void;
  readonly servers: Ledger<VirtualServer>;
  /** The addresses of the dummy interface. */
  readonly addresses: Ledger<true>;
  /** The elements of all sets. */
  readonly entries: Ledger<true>;
  /** The service ports whose load balancer IPs the node itself must not use. */
  closedToNode(): Iterable<ServicePort>;
  /** Everything that a service port needs in the kernel; undefined for an unknown service port. */
  contribution(key: ServicePortKey): Contribution | undefined;
  servicePort(key: ServicePortKey): ServicePort | undefined;
  servicePorts(): Iterable<ServicePort>;
  settings(): FamilySettings | undefined;
}

/** The desired state of a family before the first delta. */
export function createDesired(family: Family, scheduler: string, refusals: Refusals<string>): Desired {
  const servers = createLedger("virtual server", refusals, sameServer);
  const addresses = createLedger<true>("address", refusals);
  const entries = createLedger<true>("set element", refusals);
  const ports = new Map<ServicePortKey, ServicePort>(), closed = new Map<ServicePortKey, ServicePort>();
  let settings: FamilySettings | undefined;
  let nodeAddresses: readonly string[] = [];

  const contribution = (port: ServicePort): Contribution => {
    if (!settings) throw new Error("there are no settings before the first full snapshot");
    return contributionOf(port, { family, settings, scheduler, nodeAddresses });
  };
  const claim = (owner: ServicePortKey, port: ServicePort) => {
    const all = contribution(port);
    for (const [id, server] of all.servers) servers.claim(id, owner, server);
    for (const id of all.addresses) addresses.claim(id, owner, true);
    for (const id of all.entries) entries.claim(id, owner, true);
    if (port.loadBalancerSources?.includeNode === false) closed.set(owner, port);
  };
  const release = (owner: ServicePortKey, port: ServicePort) => {
    const all = contribution(port);
    for (const id of all.servers.keys()) servers.release(id, owner);
    for (const id of all.addresses) addresses.release(id, owner);
    for (const id of all.entries) entries.release(id, owner);
    closed.delete(owner);
  };
  /** Changes what every contribution depends on. */
  const changeAll = (change: () => void) => {
    for (const [key, port] of ports) release(key, port);
    change();
    for (const [key, port] of ports) claim(key, port);
  };
  const remove = (key: ServicePortKey) => {
    const port = ports.get(key);
    if (port) release(key, port);
    ports.delete(key);
  };

  return {
    apply(delta) {
      if (delta.base === undefined || delta.settings) {
        changeAll(() => {
          if (delta.base === undefined) ports.clear();
          settings = delta.settings ?? settings;
        });
      }
      for (const key of delta.deleted) remove(key);
      for (const port of delta.set) {
        const key = servicePortKey(port.name, port.protocol);
        remove(key);
        ports.set(key, port);
        claim(key, port);
      }
    },
    setNodeAddresses(next) {
      if (next.join() === nodeAddresses.join()) return;
      changeAll(() => {
        nodeAddresses = next;
      });
    },
    servers,
    addresses,
    entries,
    closedToNode: () => closed.values(),
    contribution(key) {
      const port = ports.get(key);
      return port && contribution(port);
    },
    servicePort: (key) => ports.get(key),
    servicePorts: () => ports.values(),
    settings: () => settings,
  };
}

/** Whether two virtual servers are equal, ignoring the order of their real servers. */
function sameServer(a: VirtualServer | undefined, b: VirtualServer | undefined): boolean {
  if (!a || !b) return a === b;
  if (a.definition !== b.definition) return false;
  if (a.realServers === b.realServers && a.weights === b.weights) return true;
  if (a.realServers.length !== b.realServers.length) return false;
  const others = weightsOf(b);
  return [...weightsOf(a)].every(([real, weight]) => others.get(real) === weight);
}

/** The circumstances of this node that a contribution depends on. */
interface Circumstances {
  readonly family: Family;
  readonly settings: FamilySettings;
  readonly scheduler: string;
  /** This node's own addresses, except the addresses of the dummy interface. */
  readonly nodeAddresses: readonly string[];
}

/** Everything that one service port needs in the kernel. */
export interface Contribution {
  readonly servers: ReadonlyMap<ServerKey, VirtualServer>;
  /** Addresses of the dummy interface. */
  readonly addresses: ReadonlySet<string>;
  readonly entries: ReadonlySet<Entry>;
}

/** The contribution of a service port. */
function contributionOf(port: ServicePort, circumstances: Circumstances): Contribution {
  const { family, scheduler, nodeAddresses } = circumstances;
  const servers = new Map<ServerKey, VirtualServer>();
  const addresses = new Set<string>();
  const entries = new Set<Entry>();
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
  const keepsSource = isPolicyLocal(port.external);

  for (const endpoint of port.endpointsOnThisNode) {
    const { address, port: number } = splitHostPort(endpoint);
    enter("loopBack", `${address},${port.protocol}:${number},${address}`);
  }
  for (const frontend of frontendsOf(port)) {
    const { kind, address, protocol, port: number } = frontend;
    const reals = realServersOf(port, frontend), element = `${address},${protocol}:${number}`;
    if (kind === "nodePort") {
      const { all, local } = NODE_PORT_SETS[protocol];
      for (const own of nodePortAddresses(frontend, circumstances)) {
        serve(own, number, reals);
        const element = protocol === "sctp" ? `${own},sctp:${number}` : String(number);
        enter(all, element);
        if (keepsSource) enter(local, element);
      }
      continue;
    }
    serve(address, number, reals);
    if (kind === "clusterIP" || !isNodes(address)) bind(address);
    if (kind === "clusterIP") enter("clusterIP", element);
    if (kind === "externalIP") enter(keepsSource ? "externalIPLocal" : "externalIP", element);
    if (kind === "loadBalancerIP") {
      enter("loadBalancer", element);
      if (keepsSource) enter("loadBalancerLocal", element);
      for (const [set, entry] of firewallEntries(port, address, element)) enter(set, entry);
    }
  }
  if (port.healthCheckNodePort !== 0) enter("healthCheckNodePort", String(port.healthCheckNodePort));
  return { servers, addresses, entries };
}

/** This node's addresses that serve a node port. */
function nodePortAddresses(nodePort: Frontend, { settings, nodeAddresses }: Circumstances): readonly string[] {
  const { nodePortPrefixes } = settings;
  return nodeAddresses.filter((address) =>
    isFrontendAt(nodePort, address) && (nodePortPrefixes?.some((prefix) => prefixContains(prefix, address)) ?? true)
  );
}

/**
 * The real servers of a frontend. Its virtual server has one list for all clients, and rejects connections if the list is
 * empty. With external traffic policy Local it lists the endpoints on this node, or without any, the endpoints on other nodes,
 * so that this node's pods reach them; other clients then get no reply (kubernetes PR 97081).
 */
function realServersOf(
  { clusterEndpoints, localEndpoints, balance }: ServicePort,
  { verdict, ownVerdict }: Frontend,
): Pick<VirtualServer, "realServers" | "weights"> {
  if (verdict === "local") return weighted(localEndpoints, balance?.localWeights);
  return ownVerdict === "cluster" ? weighted(clusterEndpoints, balance?.clusterWeights) : { realServers: [] };
}

/** Real servers with their weights. Weight 0 means terminating, so endpoints with weight 0 are omitted. */
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
  "consistent-hash": "mh",
};

/** The schedulers that ignore weights, each with its weighted equivalent. */
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
  { loadBalancerSources: sources }: ServicePort,
  address: string,
  frontend: string,
): [SetKind, string][] {
  if (sources === undefined) return [];
  return [
    ["loadBalancerFirewall", frontend],
    ...sources.ranges.map((range): [SetKind, string] => [
      "loadBalancerSourceRange",
      `${frontend},${prefixText(range)}`,
    ]),
    // kube-proxy's rule: each address admits itself alone here, unlike `Frontend.sources`.
    ...(sources.includeNode ? [["loadBalancerSourceIP", `${frontend},${address}`] satisfies [SetKind, string]] : []),
  ];
}
