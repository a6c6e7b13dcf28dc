import type { Table } from "./chain_names.ts";
import { comment } from "./matches.ts";

/** A rule by which a built-in chain sends packets to a chain of Sluice. */
export interface Jump<T extends string = Table> {
  readonly table: T;
  readonly from: string;
  /** The rule without its `-A CHAIN `. */
  readonly rule: string;
}

/** The chains and jumps of a mode in the tables of iptables, which distinguish them from those of other programs. */
export interface Layout {
  /** Inserted at the head of their chains in this order, so the last one comes first. */
  readonly jumps: readonly Jump[];
  /** The chains that exist in each table even without services. */
  readonly baseChains: Readonly<Record<Table, readonly string[]>>;
  /** Whether the mode creates chains of this name for services. */
  isServiceChain(table: Table, chain: string): boolean;
}

/** The layout of a mode that does not use iptables. */
export const NO_LAYOUT: Layout = { jumps: [], baseChains: { filter: [], nat: [] }, isServiceChain: () => false };

/** A jump for packets that match a condition, with the comment by which kube-proxy recognizes it. */
export function jump(table: Table, from: string, condition: string, why: string, to: string): Jump {
  return { table, from, rule: `${condition}${comment(why)}-j ${to}` };
}
