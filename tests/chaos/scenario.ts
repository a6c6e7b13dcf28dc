/** The type of a chaos scenario, its parameters and its result. */
import type { ProxyMode } from "../../core/model/mod.ts";
import type { Selectable } from "../scenario_runner.ts";

/** The modes that scenarios run in. */
export const MODES = ["iptables", "nftables"] as const satisfies readonly ProxyMode[];

/** How much of a scenario to run, and its random choices. */
export interface Extent {
  /** Run about an hour of faults instead of a few minutes. */
  readonly long: boolean;
  /** The seed of this run, which `random` follows. */
  readonly seed: number;
  /** Returns a number in [0, 1). */
  random(): number;
}

/** Measurements by name; printed, and copied into docs/reliability.md by hand. */
export type Counts = Readonly<Record<string, string | number>>;

/** One kind of fault, injected while Sluice runs. */
export interface Scenario extends Selectable {
  /** Only with `--long`. */
  readonly onlyLong?: boolean;
  /** Only on a kernel that has IPVS, or only with the executable, because it measures memory. */
  readonly needs?: "IPVS" | "executable";
  /** Throws if a connection or a change was lost. */
  run(extent: Extent): Promise<Counts>;
}
