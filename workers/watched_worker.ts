/** Watches a family's worker: pings it, and terminates it if it does not answer. */
import { type Clock, errorText } from "../platform/mod.ts";
import type { FromWorker, StartMessage, ToWorker } from "./protocol.ts";

/** The supervisor's view of a worker. */
export interface WorkerHandle {
  post(message: ToWorker): void;
  /** Ends it at once, even in an endless loop. */
  terminate(): void;
  /** Returns it, stopped with `keepWorker`, to the pool for the next start of its family. */
  release(): void;
  /**
   * Requests to end it until its family has services again. Returns whether that is allowed; if so, `stop` with
   * `keepWorker` and `terminate` must follow.
   */
  beginRest(): boolean;
}

/** Receives the messages and the failure of a worker. */
export interface WorkerListener {
  onMessage(message: FromWorker): void;
  /** The worker ended with an error, or sent a message that cannot be read. */
  onFailure(reason: string): void;
}

/** Inputs of `startWatchedWorker`. */
export interface WatchOptions {
  /** The first message to the worker. */
  readonly start: StartMessage;
  /** Starts a worker; may throw. */
  readonly spawn: (listener: WorkerListener) => WorkerHandle;
  readonly clock: Clock;
  /** The interval between pings, in milliseconds; 10 s by default. */
  readonly pingPeriodMs?: number;
  /** After this many intervals without a message, the worker counts as hung; 6 by default. */
  readonly pingsUnanswered?: number;
}

/** A worker that is pinged. */
export interface WatchedWorker extends WorkerHandle {
  /** Terminates it and reports the failure, once. */
  fail(reason: string): void;
  /** Stops pinging it. */
  unwatch(): void;
}

/**
 * Starts a worker and watches it. `onFailure` is called once, with the worker terminated: because it died, hung or could
 * not be started. Returns undefined if it could not be started.
 */
export function startWatchedWorker(
  { start, spawn, clock, pingPeriodMs = 10_000, pingsUnanswered = 6 }: WatchOptions,
  listener: WorkerListener,
): WatchedWorker | undefined {
  let handle: WorkerHandle | undefined;
  let hasFailed = false;
  let silentPeriods = 0;
  let cancelPing: (() => void) | undefined;

  const fail = (reason: string) => {
    if (hasFailed) return;
    hasFailed = true;
    cancelPing?.();
    handle?.terminate();
    listener.onFailure(reason);
  };

  const watch = () => {
    cancelPing = clock.schedule(pingPeriodMs, () => {
      // Count periods, not time: a suspended host or a busy main isolate must not count against the worker.
      if (silentPeriods >= pingsUnanswered) {
        fail(`no answer for ${silentPeriods * pingPeriodMs / 1000} s`);
        return;
      }
      if (silentPeriods === 0) handle?.post({ type: "ping" });
      silentPeriods++;
      watch();
    });
  };

  try {
    handle = spawn({
      onMessage(message) {
        silentPeriods = 0;
        if (handle !== undefined && !hasFailed) listener.onMessage(message);
      },
      onFailure: fail,
    });
    handle.post(start);
  } catch (error) {
    fail(`cannot start: ${errorText(error)}`);
    return undefined;
  }
  watch();
  return { ...handle, fail, unwatch: () => cancelPing?.() };
}
