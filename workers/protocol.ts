/** The messages between the main isolate and a family's worker: plain data, distinguished by `type`. */
import { type SyncReport, WORKER_START } from "../core/model/mod.ts";
import type { Problem } from "../core/problems/mod.ts";
import type { WorkerHandle } from "../platform/mod.ts";
import * as shape from "../platform/shapes/mod.ts";
import { PACKED_DELTA } from "./packed_delta.ts";

/** The messages to a family's worker by type. */
export const TO_WORKER = {
  /**
   * The first message to every worker, from the isolate that starts it: main, before it has read anything from the network,
   * or a sibling. It holds for the worker's life; a later one is refused.
   */
  role: shape.record({
    type: shape.oneOf("role"),
    family: WORKER_START.fields.family,
    /** The search path of tools: folders, separated by colons. */
    path: shape.text(/^[^\0\n]{0,65536}$/),
  }),
  /** Start the sync loop. */
  start: shape.record({ type: shape.oneOf("start"), ...WORKER_START.fields }),
  /** Apply a delta; answered with a report of its revision, or with a reset on a base revision mismatch. */
  sync: shape.record({ type: shape.oneOf("sync"), delta: PACKED_DELTA }),
  /** Answer a call (see `WorkerCall`); answered with `answered` of the same number, even during a sync. */
  call: shape.record({ type: shape.oneOf("call"), number: shape.COUNT, name: shape.TEXT, request: shape.ANYTHING }),
  /** Compare the kernel with the desired state now; a report of a full sync follows unless syncs fail. */
  compare: shape.record({ type: shape.oneOf("compare") }),
  /** Remove every trace from the kernel; answered with `cleaned`. */
  cleanup: shape.record({ type: shape.oneOf("cleanup") }),
  /** Stop the sync loop and its tools, then end unless `keepWorker`; answered with `stopped`. */
  stop: shape.record({ type: shape.oneOf("stop"), keepWorker: shape.BOOLEAN }),
  /** Answered with `pong` while the worker is alive, however long a tool takes. */
  ping: shape.record({ type: shape.oneOf("ping") }),
  /** Communicate over this port from now on; sent to a worker that its sibling has started. */
  "use-port": shape.record({ type: shape.oneOf("use-port"), port: shape.MESSAGE_PORT }),
  /** Start the other family's worker and pass this port to it; its failure is reported as `sibling-failed` of this number. */
  "start-sibling": shape.record({ type: shape.oneOf("start-sibling"), number: shape.COUNT, port: shape.MESSAGE_PORT }),
  /** Terminate the sibling that was started last. */
  "end-sibling": shape.record({ type: shape.oneOf("end-sibling") }),
};

/** A message of one type to a family's worker. */
type MessageOf<Type extends keyof typeof TO_WORKER> = shape.TypeOf<typeof TO_WORKER[Type]>;

/** A message to a family's worker. */
export type ToWorker = MessageOf<keyof typeof TO_WORKER>;

/** See `TO_WORKER.role`. */
export type RoleMessage = MessageOf<"role">;

/** See `TO_WORKER.start`. */
export type StartMessage = MessageOf<"start">;

/** See `TO_WORKER.call`. */
export type CallMessage = MessageOf<"call">;

/** The code and the permissions of a Web Worker. They are constant: no message carries them. */
export interface WorkerCode {
  /** The URL of its code. */
  readonly entry: string;
  /** Its name in messages of the runtime. */
  readonly name: string;
  /** The programs that it may run, installed or not. */
  readonly tools: readonly string[];
  /** The libraries that it may load, as far as the isolate that starts it may. */
  readonly libraries?: readonly string[];
  /** Whether it may use the network; it may do nothing else. */
  readonly network?: true;
  /** The unix socket that it may connect to; it may do nothing else. */
  readonly socket?: string;
}

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

/** The supervisor's view of a family's worker. */
export interface FamilyHandle extends WorkerHandle<ToWorker> {
  /** Returns the worker, stopped with `keepWorker`, to the pool for the next start of its family. */
  release(): void;
  /**
   * Requests to stop the worker until its family has services again. Returns whether that is allowed; if so, `stop` with
   * `keepWorker` and `terminate` must follow.
   */
  beginRest(): boolean;
}
