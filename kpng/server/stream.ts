import type { ServerHttp2Stream } from "node:http2";
import type { Clock } from "../../platform/mod.ts";
import { createFrameReader, STATUS, StatusError } from "../transport/mod.ts";
import { WireError } from "../codec/mod.ts";
import { createDeadline } from "./deadline.ts";
import type { Limits } from "./limits.ts";
import { whenWindowIsOpen } from "./window.ts";

/** The requests of a call, and its answers. */
export interface RequestStream<T> {
  /** Resolves with the next request; undefined after the last one. Rejects with the reason of the call's end. */
  next(): Promise<T | undefined>;
  /** Resolves when the reader has accepted the bytes. Rejects if it is gone or has stalled. Called for one write at a time. */
  write(bytes: Uint8Array): Promise<void>;
}

/** Options of `openStream`. */
export interface StreamOptions<T> {
  /** Throws WireError for an invalid request. */
  readonly decode: (message: Uint8Array<ArrayBuffer>) => T;
  readonly limits: Limits;
  readonly clock: Clock;
  /** Called if the client does not read for too long. */
  readonly onStall: () => void;
  /** Aborts everything that waits on the stream. */
  readonly abort: AbortController;
}

/**
 * Reads requests from, and writes answers to, one HTTP/2 stream. Ends the call if the client sends too many requests or an
 * invalid one, or does not read for too long.
 */
export function openStream<T>(stream: ServerHttp2Stream, options: StreamOptions<T>): RequestStream<T> {
  const { decode, limits, clock, onStall, abort } = options;
  const { signal } = abort;
  const frames = createFrameReader(limits.requestBytes);
  const requests: T[] = [];
  let ended = false;
  let wake = () => {};

  const cancelIdle = clock.schedule(limits.idleMs, () => {
    abort.abort(new StatusError(STATUS.invalidArgument, "no request received"));
  });

  // One timer and one listener for all writes: there are thousands of writes per second.
  let rejectWrite: (reason: unknown) => void = () => {};
  const stall = createDeadline(clock, () => {
    onStall();
    abort.abort(new StatusError(STATUS.resourceExhausted, "the client does not read"));
  });

  stream.on("data", (bytes: Uint8Array) => {
    if (signal.aborted) return;
    try {
      for (const message of frames.push(bytes)) {
        if (requests.length >= limits.requestsWaiting) {
          throw new StatusError(STATUS.resourceExhausted, "too many unanswered requests");
        }
        requests.push(decode(message));
      }
      if (requests.length > 0) cancelIdle();
      wake();
    } catch (error) {
      abort.abort(error instanceof WireError ? new StatusError(STATUS.invalidArgument, error.message) : error);
    }
  });
  stream.on("end", () => {
    if (frames.isInside()) abort.abort(new StatusError(STATUS.invalidArgument, "the last request is cut off"));
    ended = true;
    wake();
  });
  stream.on("error", (error: Error) => abort.abort(error));
  stream.on("close", () => {
    cancelIdle();
    abort.abort(new Error("the stream was closed"));
  });
  signal.addEventListener("abort", () => {
    stall.stop();
    rejectWrite(signal.reason);
    wake();
  });

  return {
    async next() {
      while (requests.length === 0 && !ended) {
        signal.throwIfAborted();
        await new Promise<void>((resolve) => wake = resolve);
      }
      signal.throwIfAborted();
      return requests.shift();
    },
    write(bytes) {
      signal.throwIfAborted();
      return new Promise((resolve, reject) => {
        rejectWrite = reject;
        stall.set(limits.stallMs);
        // After a failed write the stream closes, which aborts.
        stream.write(bytes, (error) => {
          if (error) return;
          whenWindowIsOpen(stream.session, () => {
            stall.clear();
            resolve();
          });
        });
      });
    },
  };
}
