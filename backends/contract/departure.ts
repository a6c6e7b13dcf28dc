import type { BalanceAlgorithm, BalanceHash } from "../../core/model/mod.ts";
import type { Runner } from "../tools/mod.ts";
import type { ModeDescription } from "./mode.ts";

/** A node in one mode, which is to have another one. */
export interface DepartureQuestion {
  readonly runner: Runner;
  /** The other mode. */
  readonly to: ModeDescription;
  readonly settings: DepartureSettings;
}

/** The settings of the configuration for the other mode on which the differences depend. */
export interface DepartureSettings {
  /** The algorithm of Services that ask for none; undefined for the mode's default. */
  readonly algorithm: BalanceAlgorithm | undefined;
  readonly hash: BalanceHash;
  /** Prefixes and keywords; empty for all addresses of the node. */
  readonly nodePortAddresses: readonly string[];
}

/** A difference that the change of the mode makes on this node. */
export interface Difference {
  /** Its subject in one to three words. */
  readonly name: string;
  /** Follows the name, as in a finding of `sluice check`. */
  readonly message: string;
  /** Advice for the administrator; absent if the difference harms nobody. */
  readonly fix?: string;
}
