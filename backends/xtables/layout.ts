import type { Table } from "./chain_names.ts";
import { comment } from "./matches.ts";

/** A rule by which a built-in chain sends packets to one of ours. */
export interface Jump<T extends string = Table> {
  readonly table: T;
  readonly from: string;
  /** The rule without its `-A CHAIN `. */
  readonly rule: string;
}

/** What a mode puts into the tables of iptables: by it, what is its own is told from what others have left there. */
export interface Layout {
  /** Each goes to the head of its chain, in this order, so that the last one stands first. */
  readonly jumps: readonly Jump[];
  /** The chains of each table that are there however few services there are. */
  readonly baseChains: Readonly<Record<Table, readonly string[]>>;
  /** Whether a chain is one that it makes for services. */
  isServiceChain(table: Table, chain: string): boolean;
}

/** What a mode has there that does not use iptables. */
export const NO_LAYOUT: Layout = { jumps: [], baseChains: { filter: [], nat: [] }, isServiceChain: () => false };

/** A jump for packets that meet a condition, with the comment by which kube-proxy knows it again. */
export function jump(table: Table, from: string, condition: string, why: string, to: string): Jump {
  return { table, from, rule: `${condition}${comment(why)}-j ${to}` };
}
