import type { ServerHttp2Stream } from "node:http2";
import type { Clock } from "../../platform/mod.ts";
import { createFrameReader, STATUS } from "../transport/mod.ts";
import { METHODS, WATCH_REQUEST, type WatchRequestMessage } from "../messages/mod.ts";
import { WireError } from "../codec/mod.ts";
import type { Subscription } from "./answers.ts";
import type { Limits } from "./limits.ts";
import type { WatcherStream } from "./watcher.ts";

/** Thrown to end a call with a status. */
export class CallError extends Error {
  override readonly name = "CallError";
  /** `status` is one of gRPC's codes; the message goes to the client. */
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** Options of `openStream`. */
export interface StreamOptions {
  readonly scope: Subscription["scope"];
  readonly limits: Limits;
  readonly clock: Clock;
  /** Called if the client does not read for too long. */
  readonly onStall: () => void;
  /** Aborts everything that waits on the stream. */
  readonly abort: AbortController;
}

/** The scope of a method's path; undefined for an unknown method. */
export function scopeOf(path: string | undefined): Subscription["scope"] | undefined {
  return path === METHODS.global ? "global" : path === METHODS.local ? "local" : undefined;
}

/**
 * Reads requests from, and writes answers to, one HTTP/2 stream. Ends the call if the client sends too many requests or an
 * invalid one, or does not read for too long.
 */
export function openStream(stream: ServerHttp2Stream, options: StreamOptions): WatcherStream {
  const { scope, limits, clock, onStall, abort } = options;
  const { signal } = abort;
  const frames = createFrameReader(limits.requestBytes);
  const requests: Subscription[] = [];
  let ended = false;
  let subscribed: Subscription | undefined;
  let wake = () => {};

  const cancelIdle = clock.schedule(limits.idleMs, () => {
    abort.abort(new CallError(STATUS.invalidArgument, "no request received"));
  });

  stream.on("data", (bytes: Uint8Array) => {
    if (signal.aborted) return;
    try {
      for (const message of frames.push(bytes)) {
        if (requests.length >= limits.requestsWaiting) {
          throw new CallError(STATUS.resourceExhausted, "too many unanswered requests");
        }
        requests.push(subscriptionOf(scope, WATCH_REQUEST.decode(message)));
      }
      if (requests.length > 0) cancelIdle();
      wake();
    } catch (error) {
      abort.abort(error instanceof WireError ? new CallError(STATUS.invalidArgument, error.message) : error);
    }
  });
  stream.on("end", () => {
    ended = true;
    wake();
  });
  stream.on("error", (error: Error) => abort.abort(error));
  stream.on("close", () => {
    cancelIdle();
    abort.abort(new Error("the stream was closed"));
  });
  signal.addEventListener("abort", () => wake());

  return {
    async nextRequest() {
      while (requests.length === 0 && !ended) {
        signal.throwIfAborted();
        await new Promise<void>((resolve) => wake = resolve);
      }
      signal.throwIfAborted();
      const next = requests.shift();
      // The differences are relative to what this stream has received for its node.
      if (next !== undefined && subscribed !== undefined && next.nodeName !== subscribed.nodeName) {
        throw new CallError(STATUS.invalidArgument, "the node of a stream cannot change");
      }
      subscribed ??= next;
      return next === undefined ? undefined : subscribed;
    },
    write(bytes) {
      signal.throwIfAborted();
      return writeAndWait(bytes);
    },
  };

  function writeAndWait(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (then: () => void) => () => {
        cancelStall();
        signal.removeEventListener("abort", onAbort);
        then();
      };
      const cancelStall = clock.schedule(limits.stallMs, () => {
        onStall();
        abort.abort(new CallError(STATUS.resourceExhausted, "the client does not read"));
      });
      const onAbort = settle(() => reject(signal.reason));
      signal.addEventListener("abort", onAbort);
      const onTaken = settle(resolve);
      // After a failed write the stream closes, which aborts.
      stream.write(bytes, (error) => error || onTaken());
    });
  }
}

function subscriptionOf(
  scope: Subscription["scope"],
  { nodeName = "", extended = false, onlyNode }: WatchRequestMessage,
): Subscription {
  return { scope, nodeName, extended, onlyNode: extended ? onlyNode : undefined };
}
