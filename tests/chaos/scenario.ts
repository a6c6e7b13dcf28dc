/** The type of a chaos scenario, its parameters and its result. */
import type { ProxyMode } from "../../core/model/mod.ts";

/** The modes that scenarios run in. */
export const MODES = ["iptables", "nftables"] as const satisfies readonly ProxyMode[];

/** The amount to run. */
export interface Extent {
  /** Run about an hour of faults instead of a few minutes. */
  readonly long: boolean;
}

/** Measurements by name; printed, and copied into docs/reliability.md by hand. */
export type Figures = Readonly<Record<string, string | number>>;

/** One kind of fault, injected while Sluice runs. */
export interface Scenario {
  readonly name: string;
  /** Only with `--long`. */
  readonly onlyLong?: boolean;
  /** Only on a kernel that has IPVS. */
  readonly needsIPVS?: boolean;
  /** Throws if a connection or a change was lost. */
  run(extent: Extent): Promise<Figures>;
}
