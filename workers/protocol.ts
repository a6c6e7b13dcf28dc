/** The messages between the main isolate and a family's worker: plain data, distinguished by `type`. */
import type { FamilyOptions } from "../core/channel/mod.ts";
import type { Problem } from "../core/problems/mod.ts";
import type { Family, FamilyDelta, SyncReport } from "../core/model/mod.ts";

/** Starts the sync loop of a family. */
export interface StartMessage extends Omit<FamilyOptions, "clock" | "logger" | "relay"> {
  readonly type: "start";
}

/**
 * The first message to every worker, from the isolate that starts it: main, before it has read anything from the network,
 * or a sibling. It holds for the worker's life; a later one is refused.
 */
export interface RoleMessage {
  readonly type: "role";
  readonly family: Family;
  /** The search path of tools: folders, separated by colons. */
  readonly path: string;
}

/** The code and the permissions of a Web Worker. They are constant: no message carries them. */
export interface WorkerCode {
  /** The URL of its code. */
  readonly entry: string;
  /** Its name in messages of the runtime. */
  readonly name: string;
  /** The programs that it may run, installed or not. */
  readonly tools: readonly string[];
  /** Whether it may use the network; it may do nothing else. */
  readonly network?: true;
  /** The unix socket that it may connect to; it may do nothing else. */
  readonly socket?: string;
}

/** A call (see `WorkerCall`). */
export interface CallMessage {
  readonly type: "call";
  readonly number: number;
  readonly name: string;
  readonly request: unknown;
}

/** A message to a family's worker. */
export type ToWorker =
  | RoleMessage
  | StartMessage
  /** Apply a delta; answered with a report of its revision, or with a reset on a base revision mismatch. */
  | { readonly type: "sync"; readonly delta: FamilyDelta }
  /** Answer a call; answered with `answered` of the same number, even during a sync. */
  | CallMessage
  /** Compare the kernel with the desired state now; a report of a full sync follows unless syncs fail. */
  | { readonly type: "compare" }
  /** Remove every trace from the kernel; answered with `cleaned`. */
  | { readonly type: "cleanup" }
  /**
   * Stop the sync loop and its tools, then end, unless `keepWorker` keeps the worker for another start; answered with
   * `stopped`.
   */
  | { readonly type: "stop"; readonly keepWorker: boolean }
  /** Answered with `pong` while the worker is alive, however long a tool takes. */
  | { readonly type: "ping" }
  /** Communicate over this port from now on; sent to a worker that its sibling has started. */
  | { readonly type: "use-port"; readonly port: MessagePort }
  /** Start the other family's worker and pass this port to it; its failure is reported as `sibling-failed` of this number. */
  | { readonly type: "start-sibling"; readonly number: number; readonly port: MessagePort }
  /** Terminate the sibling that was started last. */
  | { readonly type: "end-sibling" };

/** A message of a family's worker. */
export type FromWorker =
  /** Tools and kernel are usable; waiting for a full snapshot. */
  | { readonly type: "ready" }
  /** Tools or kernel are not usable; retrying. */
  | { readonly type: "setup-failed"; readonly reason: string; readonly unsupported: boolean }
  /** Delta base revision mismatch; waiting for a full snapshot. */
  | { readonly type: "reset" }
  | { readonly type: "report"; readonly report: SyncReport }
  /** The problems of one scope that do not fail a sync; they replace the problems in the scope's last message. */
  | { readonly type: "problems"; readonly scope: string; readonly problems: readonly Problem[] }
  /** The answer of a call; undefined if there is none, or if it failed. */
  | { readonly type: "answered"; readonly number: number; readonly answer: unknown }
  /** `problem` lists what could not be removed; undefined if everything was. */
  | { readonly type: "cleaned"; readonly problem: string | undefined }
  | { readonly type: "stopped" }
  /** Only a restart of the whole program helps, for example after a tool was installed. */
  | { readonly type: "restart-needed"; readonly reason: string }
  /** The sibling that it started has failed, or could not be started. */
  | { readonly type: "sibling-failed"; readonly number: number; readonly reason: string }
  | { readonly type: "pong" };
