/** The messages between the main isolate and a family's worker: plain data, told apart by `type`. */
import type { FamilyOptions } from "../core/channel/mod.ts";
import type {
  Family,
  FamilyDelta,
  PacketCounts,
  RuleDescription,
  ServicePortKey,
  SyncReport,
} from "../core/model/mod.ts";

/** The first message: what the worker is to be. */
export interface StartMessage extends Omit<FamilyOptions, "clock" | "logger"> {
  readonly type: "start";
}

/**
 * The first message to every worker, from whoever starts it: main before it has read anything from the network, or a
 * sibling. What it says holds for the worker's life; a later one is refused.
 */
export interface RoleMessage {
  readonly type: "role";
  readonly family: Family;
  /** Where tools are looked for: folders, with colons in between. */
  readonly path: string;
}

/** What a Web Worker is made of. It is constant: no message carries it. */
export interface WorkerCode {
  /** The URL of its code. */
  readonly entry: string;
  /** How it is called where the runtime speaks of it. */
  readonly name: string;
  /** The programs that it may run; one that is not installed is no error here. It may do nothing else. */
  readonly tools: readonly string[];
}

/** What a family's worker is told. */
export type ToWorker =
  | RoleMessage
  | StartMessage
  /** Apply this; answered with a report of its revision, or with a reset where it changes a state not held. */
  | { readonly type: "sync"; readonly delta: FamilyDelta }
  /** Tell what there is in the kernel for a service port; answered with `described` of the same number, whatever runs. */
  | { readonly type: "describe"; readonly number: number; readonly key: ServicePortKey }
  /** Tell what rules have counted; answered with `counted` of the same number, whatever runs. */
  | { readonly type: "count"; readonly number: number }
  /** Remove every trace from the kernel; answered with `cleaned`. */
  | { readonly type: "cleanup" }
  /** End what can be ended soon, and yourself unless `keepWorker`, for another start; answered with `stopped`. */
  | { readonly type: "stop"; readonly keepWorker: boolean }
  /** Answered with `pong` as long as the worker is alive, however long a tool takes. */
  | { readonly type: "ping" }
  /** The first message to a worker that its sibling has started: from now on talk over this port. */
  | { readonly type: "use-port"; readonly port: MessagePort }
  /** Start the other family's worker and hand it this port; its failures are told as `sibling-failed` of this number. */
  | { readonly type: "start-sibling"; readonly number: number; readonly port: MessagePort }
  /** End at once the sibling that was started last. */
  | { readonly type: "end-sibling" };

/** What a family's worker says. */
export type FromWorker =
  /** Tools and kernel are fit; a whole state is awaited. */
  | { readonly type: "ready" }
  /** Tools or kernel are not fit, which is tried again. */
  | { readonly type: "setup-failed"; readonly reason: string; readonly unsupported: boolean }
  /** The last delta changes another state than the one held: a whole state is awaited. */
  | { readonly type: "reset" }
  | { readonly type: "report"; readonly report: SyncReport }
  | { readonly type: "described"; readonly number: number; readonly rules: RuleDescription | undefined }
  /** `counts` are undefined where they cannot be read, or nothing is counted. */
  | { readonly type: "counted"; readonly number: number; readonly counts: PacketCounts | undefined }
  /** `problem` is what could not be removed, undefined where all is gone. */
  | { readonly type: "cleaned"; readonly problem: string | undefined }
  | { readonly type: "stopped" }
  /** Only a restart of the whole program can make something work: a tool that appeared after its start, say. */
  | { readonly type: "restart-needed"; readonly reason: string }
  /** The sibling that it was told to start has ended by an error, or could not be started. */
  | { readonly type: "sibling-failed"; readonly number: number; readonly reason: string }
  | { readonly type: "pong" };
