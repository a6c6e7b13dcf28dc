import type {
  Family,
  FamilyDelta,
  IpvsSettings,
  PacketCounts,
  RuleDescription,
  ServicePortKey,
  SyncProblem,
} from "../../core/model/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import type { Runner } from "../tools/mod.ts";

/** What every backend is made with. */
export interface BackendOptions {
  readonly family: Family;
  readonly runner: Runner;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For IPVS mode; undefined in others. */
  readonly ipvs?: IpvsSettings;
}

/** How a sync went: what it did, in figures by metric, and what it could not do. */
export interface SyncResult {
  /** Service ports that could not be programmed; everything else is in effect. */
  readonly problems: readonly SyncProblem[];
  /** Figures for metrics and logs, by name. */
  readonly figures: Readonly<Record<string, number>>;
  /** Asks for a sync after this time, be it of nothing: something is to be looked after that no delta tells of. */
  readonly againAfterMs?: number;
}

/** The result of a sync that looked at nothing. */
export const NOTHING_DONE: SyncResult = { problems: [], figures: {} };

/** Keeps the kernel of one IP family to what the deltas say. */
export interface Backend {
  /** Checks tools and kernel. Throws what a person must mend before anything can work. */
  setup(): Promise<void>;
  /**
   * Gives the kernel the settings that the mode needs, once setup has succeeded; syncs do not wait for it. Logs what cannot
   * be set. A mode that needs none leaves it out.
   */
  configure?(): Promise<void>;
  /**
   * Applies a delta on top of all deltas before. Idempotent. Throws when the kernel could not be brought to it as a
   * whole, and keeps both what it knows of the kernel and what is still to be done: the next call, with an empty delta
   * if need be, tries again. The head of a whole state is brought into effect where the kernel serves nothing yet, and
   * only noted elsewhere: what is there stays until the rest is known.
   */
  sync(delta: FamilyDelta): Promise<SyncResult>;
  /** Compares the kernel with what it should hold and repairs the difference. Throws as `sync` does. */
  resync(): Promise<SyncResult>;
  /** Removes every trace of Sluice and of kube-proxy from this family, and nothing else. */
  cleanup(): Promise<void>;
  /**
   * What there is in the kernel for a service port, read off the state that the deltas have led to; undefined for one
   * that they have not led to. A backend that cannot tell leaves it out.
   */
  describe?(key: ServicePortKey): RuleDescription | undefined;
  /** What rules have counted, read off the kernel; may run beside a sync. A backend that counts nothing leaves it out. */
  packetCounts?(): Promise<PacketCounts>;
}

/** This host cannot serve the family in this mode at all: a tool or the kernel's support is missing. */
export class UnsupportedHostError extends Error {
  override readonly name = "UnsupportedHostError";
}
