/** What a chaos scenario is, and what it is given. */
import type { ProxyMode } from "../../core/model/mod.ts";

/** The modes that scenarios run in. */
export const MODES = ["iptables", "nftables"] as const satisfies readonly ProxyMode[];

/** How much of it to do. */
export interface Extent {
  /** An hour of everything, in place of some minutes. */
  readonly long: boolean;
}

/** What was done and what was seen, by name; printed, and put into docs/reliability.md by hand. */
export type Figures = Readonly<Record<string, string | number>>;

/** One fault, done to Sluice as it runs. */
export interface Scenario {
  readonly name: string;
  /** Only with `--long`. */
  readonly onlyLong?: boolean;
  /** Only on a kernel that has IPVS. */
  readonly needsIPVS?: boolean;
  /** Throws where anything was lost. */
  run(extent: Extent): Promise<Figures>;
}
