import type { ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { comment } from "./matches.ts";

/** The tables with rules of Sluice: `mangle` drops martians, before `nat` could translate them. */
export type Table = "mangle" | "filter" | "nat";

/** The tables in the order in which they are restored: packets are dropped and rejected before they are forwarded. */
export const TABLES: readonly Table[] = ["mangle", "filter", "nat"];

/** Whether a table of iptables may have rules of Sluice. */
export function isTable(name: string): name is Table {
  return (TABLES as readonly string[]).includes(name);
}

/** The name prefixes of the chains of one service port. They are kube-proxy's, so that either can take over from the other. */
const SERVICE_CHAIN_PREFIXES = {
  /** Picks one of the endpoints for traffic policy Cluster. */
  cluster: "KUBE-SVC-",
  /** Picks one of the endpoints for traffic policy Local. */
  local: "KUBE-SVL-",
  /** Handles traffic to external addresses and node ports. */
  external: "KUBE-EXT-",
  /** Admits the permitted sources to a load balancer address. */
  firewall: "KUBE-FW-",
} as const;

/** The names of the chains of one service port. */
export type ServiceChainNames = Readonly<Record<keyof typeof SERVICE_CHAIN_PREFIXES, string>>;

/**
 * The names of a service port's chains: kube-proxy's prefixes and 16 characters of the hash of name and protocol.
 *
 * ```ts
 * import { serviceChainNames } from "./chains.ts";
 * import assert from "node:assert/strict";
 *
 * assert.equal(serviceChainNames({ name: "default/kubernetes:https", protocol: "tcp" }).cluster, "KUBE-SVC-NPX46M4PTMTKRN6Y");
 * ```
 */
export function serviceChainNames(port: Pick<ServicePort, "name" | "protocol">): ServiceChainNames {
  return namesOfHash(shortHash(port.name + port.protocol));
}

/** The names of all chains of the service port that owns this chain, without hashing the port's name again. */
export function namesBeside(chain: string): ServiceChainNames {
  return namesOfHash(chain.split("-")[2]!);
}

function namesOfHash(hash: string): ServiceChainNames {
  return {
    cluster: SERVICE_CHAIN_PREFIXES.cluster + hash,
    local: SERVICE_CHAIN_PREFIXES.local + hash,
    external: SERVICE_CHAIN_PREFIXES.external + hash,
    firewall: SERVICE_CHAIN_PREFIXES.firewall + hash,
  };
}

/** The xt_recent list of an endpoint's clients, by the name of kube-proxy's chain, so that they survive a takeover. */
export function affinityListName(port: Pick<ServicePort, "name" | "protocol">, endpoint: string): string {
  return "KUBE-SEP-" + shortHash(port.name + port.protocol + endpoint);
}

/**
 * The chains that packets enter. The names are kube-proxy's, with four exceptions: `externalNodePorts` has the node ports
 * of KUBE-EXTERNAL-SERVICES, `localhostNodePorts` counts packets to KUBE-NODEPORTS at a loopback address (kube-proxy
 * deletes chains with these prefixes when it takes over), `relayed` protects the ports of the relay, and `martians` protects
 * loopback addresses, as KUBE-FIREWALL does, a chain that belongs to the kubelet.
 */
export const BASE = {
  services: "KUBE-SERVICES",
  nodePorts: "KUBE-NODEPORTS",
  postrouting: "KUBE-POSTROUTING",
  markMasquerade: "KUBE-MARK-MASQ",
  forward: "KUBE-FORWARD",
  proxyFirewall: "KUBE-PROXY-FIREWALL",
  externalServices: "KUBE-EXTERNAL-SERVICES",
  externalNodePorts: "KUBE-EXT-NODEPORTS",
  martians: "KUBE-MARTIANS",
  localhostNodePorts: "KUBE-SVC-LOCALHOST",
  relayed: "KUBE-SVC-RELAYED",
} as const;

/** Whether chains of this name are Sluice's or kube-proxy's for services: an unwanted one may be deleted. */
export function isServiceChain(table: Table, name: string): boolean {
  if (table === "mangle") return false;
  return table === "nat" ? /^KUBE-(SVC|SVL|SEP|EXT|FW|XLB)-/.test(name) : /^KUBE-(SVC|EXT|FW)-/.test(name);
}

/** A rule by which a built-in chain sends packets to a chain of Sluice. */
export interface Jump<T extends string = Table> {
  readonly table: T;
  readonly from: string;
  /** The rule without its `-A CHAIN `. */
  readonly rule: string;
}

/** The chains and jumps of a mode in the iptables tables, to distinguish them from the chains of other programs. */
export interface Layout {
  /** Inserted at the head of their chains in this order, so the last one comes first. */
  readonly jumps: readonly Jump[];
  /** The chains that exist in each table even without services. */
  readonly baseChains: Readonly<Record<Table, readonly string[]>>;
  /** Whether the mode creates chains of this name for services. */
  isServiceChain(table: Table, chain: string): boolean;
}

/** The layout of a mode that does not use iptables. */
export const NO_LAYOUT: Layout = {
  jumps: [],
  baseChains: { mangle: [], filter: [], nat: [] },
  isServiceChain: () => false,
};

/** The layout of two modes together. */
export function bothLayouts(one: Layout, other: Layout): Layout {
  const chainsOf = (table: Table) => [...one.baseChains[table], ...other.baseChains[table]];
  return {
    jumps: [...one.jumps, ...other.jumps],
    baseChains: { mangle: chainsOf("mangle"), filter: chainsOf("filter"), nat: chainsOf("nat") },
    isServiceChain: (table, chain) => one.isServiceChain(table, chain) || other.isServiceChain(table, chain),
  };
}

/** A jump for packets that match a condition, with the comment by which kube-proxy recognizes it. */
export function jump(table: Table, from: string, condition: string, why: string, to: string): Jump {
  return { table, from, rule: `${condition}${comment(why)}-j ${to}` };
}

// The desired chains: in iptables mode the chains of all services, in IPVS mode a few fixed ones.

/** A chain that the kernel should hold. */
export interface RenderedChain {
  /** Rules without their `-A CHAIN `. */
  readonly rules: readonly string[];
  /** The number of rules that jump to chains of services. */
  readonly jumps: number;
  /** The service port of a rule, by the rule's index; undefined if it is for none or for several. */
  ownerOf(rule: number): ServicePortKey | undefined;
}

/** A chain whose rules belong to no single service port and jump to no chain of a service. */
export function fixedChain(rules: readonly string[]): RenderedChain {
  return { rules, jumps: 0, ownerOf: () => undefined };
}

/** Chains by table; none in a table that is absent. */
export type ChainsByTable = Readonly<Partial<Record<Table, ReadonlySet<string>>>>;

/** The desired chains. Pure: no effects. */
export interface WantedChains {
  /** Excludes a service port because the kernel refuses its rules, or includes it again; returns the changed chains. */
  exclude(key: ServicePortKey, excluded: boolean): ChainsByTable;
  /** The rules of a chain; undefined if it should not exist. */
  render(table: Table, chain: string): RenderedChain | undefined;
  /** Whether a chain should exist. */
  has(table: Table, chain: string): boolean;
  /** All chains. */
  chains(table: Table): Iterable<string>;
  /** Orders the creation of chains: each refers only to chains of a lower rank. */
  rank(table: Table, chain: string): number;
  /** The service port with this key; undefined if there is none. */
  servicePort(key: ServicePortKey): ServicePort | undefined;
}

/**
 * Desired chains that do not depend on the services.
 * @param rulesOf the rules of a chain; undefined if it should not be written yet
 */
export function createFixedChains(
  chains: Readonly<Record<Table, readonly string[]>>,
  rulesOf: (table: Table, chain: string) => readonly string[] | undefined,
  rank: (chain: string) => number = () => 0,
): WantedChains {
  return {
    exclude: () => ({}),
    render(table, chain) {
      const rules = chains[table].includes(chain) ? rulesOf(table, chain) : undefined;
      return rules && fixedChain(rules);
    },
    has: (table, chain) => chains[table].includes(chain),
    chains: (table) => chains[table],
    rank: (_, chain) => rank(chain),
    servicePort: () => undefined,
  };
}
