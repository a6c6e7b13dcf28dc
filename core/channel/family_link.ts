/** How the cluster side starts the kernel side of one IP family and talks to it, without knowing what runs it. */
import type { Clock, Level, Logger } from "../../platform/mod.ts";
import type {
  Family,
  FamilyDelta,
  IpvsSettings,
  PacketCounts,
  ProxyMode,
  RuleDescription,
  ServicePortKey,
  SyncReport,
} from "../model/mod.ts";

/** A kernel setting that is to have this value: `net.netfilter.nf_conntrack_max`, `131072`. */
export interface KernelSetting {
  readonly name: string;
  readonly value: number;
  /** Whether a greater value may stay, and one that cannot be written is nothing to warn of. */
  readonly atLeast?: true;
}

/** What a family's worker is started with. */
export interface FamilyOptions {
  readonly family: Family;
  readonly mode: ProxyMode;
  /** For IPVS mode; undefined in others. */
  readonly ipvs?: IpvsSettings;
  readonly logLevel: Level;
  readonly logFormat: "text" | "json";
  /** The settings of the whole host that this worker makes after its setup; none where another family's makes them. */
  readonly kernel: readonly KernelSetting[];
  /** Whether the worker is ready only when those settings are made. Serving never waits for them. */
  readonly kernelFirst?: true;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * How a family's worker is doing:
 * - `starting`: it checks tools and kernel;
 * - `ready`: it takes deltas; how they fare is in the reports;
 * - `unfit`: the check failed, and is tried again with growing waits; `unsupported` where it found three times in a row that
 *   this host cannot serve the family in this mode (a tool is not installed, the kernel has no such table) until a person
 *   changes it;
 * - `resting`: the family has no service ports, and so no worker; its rules are those of a family without services;
 * - `restarting`: it died or hung, and a new one is (being) started; the kernel keeps the rules it has.
 */
export type FamilyHealth =
  | { readonly state: "starting" | "ready" | "resting" }
  | { readonly state: "unfit"; readonly reason: string; readonly unsupported: boolean }
  | {
    readonly state: "restarting";
    readonly reason: string;
    /** How often this family's worker had to be started anew so far, this time included. */
    readonly restarts: number;
  };

/** Who is told what a family's worker says; never from within a call to the link. */
export interface FamilyListener {
  /** The worker holds no state, or not the one that the last delta changes: a whole state is needed. */
  onReset(): void;
  /**
   * A sync has ended. The first report of a revision says that the worker is free for the next delta, whether the sync
   * worked or not: a failed one is tried again, and reported again, by the worker itself.
   */
  onReport(report: SyncReport): void;
  onHealth(health: FamilyHealth): void;
}

/** How a family's link is stopped. */
export interface StopOptions {
  /** Whether the worker stays for the next start; false by default. */
  readonly keepWorker?: boolean;
}

/** One family's worker, restarted as often as it takes. */
export interface FamilyLink {
  /**
   * Gives the worker a delta; to be called only after `onReset`, and with no more than one delta without a report.
   * What is sent while the worker is being restarted is lost, and `onReset` follows.
   */
  send(delta: FamilyDelta): void;
  /**
   * What there is in the kernel for a service port, as far as the worker knows; undefined where it does not, or does not
   * answer.
   */
  describe(key: ServicePortKey): Promise<RuleDescription | undefined>;
  /** What rules have counted; undefined where nothing is counted, or the worker does not answer. */
  packetCounts(): Promise<PacketCounts | undefined>;
  /**
   * Ends the worker, of which everything sent is in effect, until `wake`. Returns whether it does: only where the other
   * family's worker can start it again.
   */
  rest(): boolean;
  /** Starts a worker for a family that rests; `onReset` follows. */
  wake(): void;
  /** Removes every trace from the kernel. Rejects with what could not be removed, or when the worker dies over it. */
  cleanup(): Promise<void>;
  /**
   * Ends the worker within a second, whatever it is doing; the rules stay. With `keepWorker` only its syncs end, and it
   * waits for the family to be started again.
   */
  stop(options?: StopOptions): Promise<void>;
}

/** Starts a family's worker. Throws nothing: what goes wrong is told through the listener. */
export type StartFamily = (options: FamilyOptions, listener: FamilyListener) => FamilyLink;
