/** Time, as the program sees it: everything that reads a clock or waits is handed one of these. */
export interface Clock {
  /** Wall time in milliseconds since 1970. */
  now(): number;
  /** Milliseconds on a clock that never goes back; only differences mean something. */
  monotonic(): number;
  /** Calls `callback` once after `delayMs`; the returned function takes it back. */
  schedule(delayMs: number, callback: () => void): () => void;
}

/** The longest that a timer of the platform can wait (24.8 days); it fires a longer one at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The machine's own clock. Its timers wait 24.8 days at most. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(delayMs, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  },
};

/**
 * Resolves after `delayMs`. An abort of `signal` ends the wait early and rejects with the signal's reason, so that
 * a shutdown never waits for a timer.
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
