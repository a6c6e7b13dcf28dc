/** The cluster side's interface to the worker of one IP family, independent of how the worker runs. */
import type { ClockAndLogger } from "../../platform/mod.ts";
import type { Problem } from "../problems/mod.ts";
import type { CallWorker, FamilyDelta, PortRange, RelayPlaces, SyncReport, WorkerStart } from "../model/mod.ts";

/** The bounds of a family's relay. */
export interface RelaySettings {
  /** The number of files that this process may open. */
  readonly files: number;
  /** The maximum number of open client connections; 0 for as many as `files` allows. */
  readonly maxConnections: number;
  /** The time after which an idle UDP flow ends, in milliseconds; 0 for the relay's default. */
  readonly udpIdleTimeoutMs: number;
  /** The ports that rules may send to; any free one by default. */
  readonly ports?: PortRange;
}

/** The options of a family's worker. */
export interface FamilyOptions extends WorkerStart, ClockAndLogger {
  /** Undefined if this family needs no relay (see `ModeRelay` in backends/contract). */
  readonly relay?: RelaySettings;
}

/**
 * The health of a family's worker:
 * - `starting`: it checks tools and kernel;
 * - `ready`: it takes deltas; their results are in the reports;
 * - `unfit`: the check failed and is retried with backoff; `unsupported` if it found three times in a row that this host
 *   cannot serve the family in this mode (a tool is not installed, the kernel has no such table) until an operator changes
 *   it;
 * - `resting`: the family has no service ports and therefore no worker; its rules serve nothing;
 * - `restarting`: it died or hung, and a new one is being started; the kernel keeps its rules.
 */
export type FamilyHealth =
  | { readonly state: "starting" | "ready" | "resting" }
  | { readonly state: "unfit"; readonly reason: string; readonly unsupported: boolean }
  | {
    readonly state: "restarting";
    readonly reason: string;
    /** The number of restarts so far, including this one. */
    readonly restarts: number;
  };

/** Receives the events of a family's worker; never called from within a call to the link. */
export interface FamilyListener {
  /** The worker holds no state, or not the base of the last delta: it needs a full snapshot. */
  onReset(): void;
  /**
   * A sync has ended. After the first report of a revision the worker takes the next delta, whether the sync succeeded or
   * not: the worker retries a failed sync itself, and reports it again.
   */
  onReport(report: SyncReport): void;
  onHealth(health: FamilyHealth): void;
  /** Replaces the problems of one scope that do not fail a sync. */
  onProblems(scope: string, problems: readonly Problem[]): void;
}

/** Options of `FamilyLink.stop`. */
export interface StopOptions {
  /** Whether to keep the worker for the next start; false by default. */
  readonly keepWorker?: boolean;
}

/** The worker of one family, restarted whenever it fails. */
export interface FamilyLink {
  /**
   * Sends a delta. Call it only after `onReset`, and not before the previous delta was reported. A delta sent while the
   * worker restarts is lost; `onReset` follows.
   */
  send(delta: FamilyDelta): void;
  readonly call: CallWorker;
  /** Where this family's relay listens; undefined if the rules need no relay, or absent if no link has one. */
  relayPlaces?(): RelayPlaces | undefined;
  /** The metrics of this family's relay since it started, by name; undefined or absent if there is none. */
  relayCounts?(): Promise<Readonly<Record<string, number>> | undefined>;
  /**
   * Compares the kernel with the sent state as soon as possible instead of at the end of the sync period; a report of a full
   * sync follows. No effect while no worker runs, or while syncs fail, since every second retry compares.
   */
  compare(): void;
  /** Stops the worker until `wake`. Returns false if the other family's worker cannot start it again. */
  rest(): boolean;
  /** Starts the worker of a resting family; `onReset` follows. */
  wake(): void;
  /** Removes everything from the kernel. Rejects with what could not be removed, or if the worker dies. */
  cleanup(): Promise<void>;
  /** Stops the worker within a second; the rules stay. With `keepWorker`, it waits for the next start of the family. */
  stop(options?: StopOptions): Promise<void>;
}

/** Starts a family's worker. Never throws: failures are reported to the listener. */
export type StartFamily = (options: FamilyOptions, listener: FamilyListener) => FamilyLink;
