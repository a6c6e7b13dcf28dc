/** Watches a worker: pings it, and terminates it if it does not answer. */
import { type Clock, errorText } from "../platform/mod.ts";
import type { FromWorker, ToWorker } from "./protocol.ts";

/** A request that a worker answers with `pong`. */
type Ping = { readonly type: "ping" };

/** A worker that takes messages of type `To`. */
export interface Watchable<To> {
  post(message: To | Ping): void;
  /** Ends it at once, even in an endless loop. */
  terminate(): void;
}

/** The supervisor's view of a family's worker. */
export interface WorkerHandle extends Watchable<ToWorker> {
  /** Returns the worker, stopped with `keepWorker`, to the pool for the next start of its family. */
  release(): void;
  /**
   * Requests to stop the worker until its family has services again. Returns whether that is allowed; if so, `stop` with
   * `keepWorker` and `terminate` must follow.
   */
  beginRest(): boolean;
}

/** Receives the messages and the failure of a worker. */
export interface WorkerListener<From = FromWorker> {
  onMessage(message: From): void;
  /** The worker ended with an error, or sent a message that cannot be read. */
  onFailure(reason: string): void;
}

/** Inputs of `startWatchedWorker`. */
export interface WatchOptions<Start, From, Handle extends Watchable<Start>> {
  /** The first message to the worker. */
  readonly start: Start;
  /** Starts a worker; may throw. */
  readonly spawn: (listener: WorkerListener<From>) => Handle;
  readonly clock: Clock;
  /** The interval between pings, in milliseconds; 10 s by default. */
  readonly pingPeriodMs?: number;
  /** After this many intervals without a message, the worker counts as hung; 6 by default. */
  readonly pingsUnanswered?: number;
}

/** The functions of a watched worker in addition to its handle. */
export interface Watched {
  /** Terminates it and reports the failure, once. */
  fail(reason: string): void;
  /** Stops pinging it. */
  unwatch(): void;
}

/** A family's worker that is pinged. */
export type WatchedWorker = WorkerHandle & Watched;

/**
 * Starts a worker and watches it. `onFailure` is called once, with the worker terminated: because it died, hung or could
 * not be started. Nothing is called once it was terminated. Returns undefined if it could not be started.
 */
export function startWatchedWorker<Start, From, Handle extends Watchable<Start>>(
  { start, spawn, clock, pingPeriodMs = 10_000, pingsUnanswered = 6 }: WatchOptions<Start, From, Handle>,
  listener: WorkerListener<From>,
): (Handle & Watched) | undefined {
  let handle: Handle | undefined;
  let hasEnded = false;
  let silentPeriods = 0;
  let cancelPing: (() => void) | undefined;

  const fail = (reason: string) => {
    if (hasEnded) return;
    hasEnded = true;
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
        if (handle !== undefined && !hasEnded) listener.onMessage(message);
      },
      onFailure: fail,
    });
    handle.post(start);
  } catch (error) {
    fail(`cannot start: ${errorText(error)}`);
    return undefined;
  }
  watch();
  const unwatch = () => cancelPing?.();
  const terminate = () => {
    hasEnded = true;
    unwatch();
    handle.terminate();
  };
  return { ...handle, terminate, fail, unwatch };
}

/** Questions to a worker, each answered by a message with the question's number. */
export interface Questions<Answer> {
  /** Posts a question and resolves with its answer; undefined if there is none within `timeoutMs`. */
  ask(post: (number: number) => void, timeoutMs?: number): Promise<Answer | undefined>;
  /** Delivers an answer; ignored if its question has timed out. */
  answer(number: number, answer: Answer | undefined): void;
}

/** Questions that wait up to `longestMs` for their answers, unless they say otherwise. */
export function createQuestions<Answer>(clock: Clock, longestMs: number): Questions<Answer> {
  const waiting = new Map<number, (answer: Answer | undefined) => void>();
  let lastNumber = 0;
  return {
    async ask(post, timeoutMs = longestMs) {
      const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
      const number = ++lastNumber;
      const cancel = clock.schedule(timeoutMs, () => resolve(undefined));
      waiting.set(number, resolve);
      post(number);
      try {
        return await promise;
      } finally {
        cancel();
        waiting.delete(number);
      }
    },
    answer: (number, answer) => waiting.get(number)?.(answer),
  };
}
