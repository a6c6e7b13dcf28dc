/** The chains that the kernel should hold, whoever renders them: iptables mode a family's services, IPVS mode a few fixed rules. */
import type { ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import type { Table } from "./chain_names.ts";

/** A chain that the kernel should hold. */
export interface RenderedChain {
  /** Rules without their `-A CHAIN `. */
  readonly rules: readonly string[];
  /** How many of the rules lead to chains of services. */
  readonly jumps: number;
  /** The service port that a rule is for, by the rule's index; undefined where it is for none or for many. */
  ownerOf(rule: number): ServicePortKey | undefined;
}

/** Chains by table. */
export type ChainsByTable = Readonly<Record<Table, ReadonlySet<string>>>;

/** The chains that the kernel should hold. Pure: it reads and writes nothing. */
export interface WantedChains {
  /** Leaves a service port out (or takes it in again) although the state has it, since the kernel refuses its rules. */
  exclude(key: ServicePortKey, excluded: boolean): ChainsByTable;
  /** The rules of a chain, or undefined where there should be no such chain. */
  render(table: Table, chain: string): RenderedChain | undefined;
  /** Whether there should be such a chain. */
  has(table: Table, chain: string): boolean;
  /** All chains. */
  chains(table: Table): Iterable<string>;
  /** In which order chains must come to be: each refers to chains of a lower rank only. */
  rank(table: Table, chain: string): number;
  /** The service port with this key, where there is one. */
  servicePort(key: ServicePortKey): ServicePort | undefined;
}
