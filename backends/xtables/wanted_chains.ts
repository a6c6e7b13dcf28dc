/** The chains that the kernel should hold: in iptables mode those of all services, in IPVS mode a few fixed ones. */
import type { ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import type { Table } from "./chain_names.ts";

/** A chain that the kernel should hold. */
export interface RenderedChain {
  /** Rules without their `-A CHAIN `. */
  readonly rules: readonly string[];
  /** The number of rules that jump to chains of services. */
  readonly jumps: number;
  /** The service port of a rule, by the rule's index; undefined if it is for none or for several. */
  ownerOf(rule: number): ServicePortKey | undefined;
}

/** Chains by table. */
export type ChainsByTable = Readonly<Record<Table, ReadonlySet<string>>>;

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
