/** Source of time and timers. All code that reads the time or waits takes one, so that tests control it. */
export interface Clock {
  /** Wall time in milliseconds since 1970. */
  now(): number;
  /** Monotonic time in milliseconds; only differences are meaningful. */
  monotonic(): number;
  /** Calls `callback` once after `delayMs`; returns a function that cancels it. */
  schedule(delayMs: number, callback: () => void): () => void;
}

/** Maximum delay of setTimeout (24.8 days); longer ones fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The machine's clock. Timers are capped at 24.8 days. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(delayMs, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
};

/**
 * Resolves after `delayMs`. Rejects with the signal's reason as soon as `signal` is aborted, so that a shutdown never
 * waits for a timer.
 */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.schedule(delayMs, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Returns or throws as `work` does, or returns undefined if it has not settled after `longestMs`. */
export async function waitAtMost<Result>(
  clock: Clock,
  longestMs: number,
  work: Promise<Result>,
): Promise<Result | undefined> {
  const waited = Promise.withResolvers<undefined>();
  const cancel = clock.schedule(longestMs, () => waited.resolve(undefined));
  return await Promise.race([work, waited.promise]).finally(cancel);
}

/**
 * Runs a task whose signal also aborts after this time. Rejects with `late` if the task then fails, and with the signal's
 * reason if that has aborted.
 */
export async function withDeadline<Result>(
  clock: Clock,
  deadlineMs: number,
  late: Error,
  signal: AbortSignal,
  task: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const deadline = new AbortController();
  const cancel = clock.schedule(deadlineMs, () => deadline.abort(late));
  try {
    return await task(AbortSignal.any([signal, deadline.signal]));
  } catch (error) {
    signal.throwIfAborted();
    throw deadline.signal.aborted ? late : error;
  } finally {
    cancel();
  }
}

/** Maximum time that a synchronous stretch of long work holds the event loop. */
const TURN_MS = 20;

/**
 * Starts a stretch of long work. Returns `yieldTurn`: awaiting it lets other tasks run if this one has held the event loop
 * for `turnMs`, 20 ms by default.
 */
export function startTurn(clock: Clock, turnMs = TURN_MS): () => Promise<void> {
  let startMs = clock.monotonic();
  return async () => {
    if (clock.monotonic() - startMs < turnMs) return;
    await sleep(clock, 0);
    startMs = clock.monotonic();
  };
}

/** The number of received bytes after which other tasks get a turn. */
const TURN_BYTES = 64 * 1024;

/**
 * Counts the bytes of a peer that may send faster than they are processed, for example compressed data. Returns `yieldAfter`: once
 * for each 64 KiB, it returns a promise, and awaiting that lets other tasks run.
 */
export function startReading(): (bytes: number) => Promise<void> | undefined {
  let left = TURN_BYTES;
  return (bytes) => {
    left -= bytes;
    if (left > 0) return undefined;
    left = TURN_BYTES;
    return sleep(systemClock, 0);
  };
}

/**
 * Returns a controller that is also aborted by each of these signals, with its reason. Replaces AbortSignal.any, whose
 * result Deno 2.7 garbage-collects together with its listeners (2.9 does not).
 */
export function abortedBy(...signals: readonly (AbortSignal | undefined)[]): AbortController {
  const controller = new AbortController();
  for (const signal of signals) {
    signal?.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
    if (signal?.aborted) controller.abort(signal.reason);
  }
  return controller;
}

/** Settles like work that a signal ends, but resolves if it fails after the abort. */
export async function untilAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  await work.catch((error) => {
    if (!signal.aborted) throw error;
  });
}

/** Settles like `promise`, or rejects with the signal's reason if that is aborted first. Does not cancel the operation. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
