/** The messages between the main isolate, which has the state, and the workers that write it to watchers. */
import type { TlsFiles } from "../transport/mod.ts";
import type { Position, Subscription } from "./answers.ts";
import type { Limits } from "./limits.ts";
import type { TcpAddress } from "./listen.ts";
import type { TallyMemory } from "./tally.ts";

/** The first message to a worker. */
export interface ServingStart {
  readonly type: "start";
  readonly address: TcpAddress;
  readonly tls: TlsFiles | undefined;
  /** The organization that a client's certificate must name; any if undefined. */
  readonly clientOrganization: string | undefined;
  readonly limits: Limits;
  readonly memory: TallyMemory;
  /** The worker's row of the tally. */
  readonly row: number;
}

/** A part of an answer. */
export type SentPart =
  /** Chunks that other answers share; without them if the worker holds them. */
  | { readonly kind: "shared"; readonly id: number; readonly chunks: readonly Uint8Array[] | undefined }
  /** The first chunks of a part for one watcher; the others, if there are any, can be requested one after the other. */
  | { readonly kind: "own"; readonly chunks: readonly Uint8Array[]; readonly rest: number | undefined };

/** An answer to a watcher. */
export interface SentAnswer {
  readonly position: Position;
  readonly parts: readonly SentPart[];
  /** Whether every watcher of the global state at the same revision gets the same. */
  readonly isCommon: boolean;
}

/** A message to a worker. */
export type ToServingWorker =
  | ServingStart
  /** The newest revision of the complete state. */
  | { readonly type: "revision"; readonly revision: number }
  /** The reply to `ask`; undefined if the watcher needs a full snapshot. */
  | { readonly type: "answer"; readonly number: number; readonly answer: SentAnswer | undefined }
  /** The reply to `next`; undefined after the last chunk. */
  | { readonly type: "chunk"; readonly number: number; readonly chunk: Uint8Array | undefined }
  | { readonly type: "renew"; readonly tls: TlsFiles }
  | { readonly type: "close" }
  | { readonly type: "ping" };

/** A message from a worker. */
export type FromServingWorker =
  | { readonly type: "listening" }
  /** It cannot listen. */
  | { readonly type: "failed"; readonly reason: string }
  /** Requests the changes since a position, or a full snapshot without one. */
  | {
    readonly type: "ask";
    readonly number: number;
    readonly position: Position | undefined;
    readonly subscription: Subscription;
    /** The shared parts that the worker holds. */
    readonly held: readonly number[];
  }
  /** Requests the next chunk of a part. */
  | { readonly type: "next"; readonly number: number; readonly rest: number }
  /** A part is not needed any more. */
  | { readonly type: "release"; readonly rest: number }
  /** No watcher of this worker is without that revision; `wasWritten` if it was written to any. */
  | { readonly type: "received"; readonly revision: number; readonly wasWritten: boolean }
  | {
    readonly type: "log";
    readonly level: "warn" | "info" | "debug";
    readonly message: string;
    readonly fields: Readonly<Record<string, string | number | boolean | undefined>>;
  }
  | { readonly type: "closed" }
  | { readonly type: "pong" };
