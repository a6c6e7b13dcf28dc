import type {
  AttemptCounts,
  ComparisonCause,
  Family,
  FamilyDelta,
  IpvsSettings,
  PacketCounts,
  RuleDescription,
  ServicePortKey,
  SyncFigures,
  SyncProblem,
  TrafficReading,
} from "../../core/model/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import type { Runner } from "../tools/mod.ts";

/** The inputs of every backend. */
export interface BackendOptions {
  readonly family: Family;
  readonly runner: Runner;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Receives problems that fail no sync, while they last; nobody does by default. */
  readonly onProblems?: ReportProblems;
  /** For IPVS mode; undefined in others. */
  readonly ipvs?: IpvsSettings;
}

/** The host and the family that are checked for a mode. */
export type HostQuestion = Pick<BackendOptions, "family" | "runner" | "ipvs">;

/** The result of a sync; `Figure` names the figures that the mode's description declares. */
export interface SyncResult<Figure extends string = string> {
  /** Service ports that could not be programmed; everything else is in effect. */
  readonly problems: readonly SyncProblem[];
  readonly figures: SyncFigures<Figure>;
  /** Request another sync after this delay even if nothing changed. */
  readonly againAfterMs?: number;
}

/** The result of a sync that did nothing. */
export const NOTHING_DONE: SyncResult<never> = { problems: [], figures: {} };

/** Keeps the kernel of one IP family in the state that the deltas describe. */
export interface Backend<Figure extends string = string> {
  /** Checks the tools and the kernel. Throws an error that names what must be fixed before anything can work. */
  setup(): Promise<void>;
  /**
   * Writes the kernel settings that the mode needs, once setup has succeeded; syncs do not wait for it. Logs settings
   * that cannot be written. Absent in modes that need none.
   */
  configure?(): Promise<void>;
  /**
   * Applies a delta on top of all earlier ones. Idempotent. Throws if the kernel could not be brought to that state
   * completely, and keeps both the known state of the kernel and the remaining work: the next call retries, even with
   * an empty delta. The head of a full snapshot takes effect if the kernel serves nothing yet; otherwise it is only
   * noted, and the existing rules stay until the rest is known.
   */
  sync(delta: FamilyDelta): Promise<SyncResult<Figure>>;
  /** Compares the kernel with the desired state and repairs the difference; `interval` by default. Throws as `sync` does. */
  resync(cause?: ComparisonCause): Promise<SyncResult<Figure>>;
  /** Removes every trace of Sluice and of kube-proxy from this family, and nothing else. */
  cleanup(): Promise<void>;
  /**
   * Describes the rules of a service port, from the desired state; undefined if the service port is not part of it.
   */
  describe?(key: ServicePortKey): RuleDescription | undefined;
  /**
   * Returns the traffic since the last call; undefined if the settings do not ask for it. May run beside a sync. Absent
   * in modes that cannot count it.
   */
  readTraffic?(): Promise<TrafficReading | undefined>;
  /** Reads the packet counters of rules; may run beside a sync. Absent in modes whose rules count nothing. */
  packetCounts?(): Promise<PacketCounts>;
  /**
   * Reads the connection attempts that the rules have counted; may run beside a sync. Absent in modes that count none.
   */
  attemptCounts?(): Promise<AttemptCounts>;
}

/** This host cannot serve the family in this mode at all: a tool or the kernel's support is missing. */
export class UnsupportedHostError extends Error {
  override readonly name = "UnsupportedHostError";
}
