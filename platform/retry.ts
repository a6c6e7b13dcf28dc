import { type Clock, sleep } from "./clock.ts";

/** Retry delays of one operation. */
export interface Backoff {
  /** Returns the next delay in milliseconds. */
  nextMs(): number;
  /** Restarts at the first delay, after a success. */
  reset(): void;
}

/** Creates an exponential backoff with jitter: each delay is twice the one before. */
export function createBackoff(options: {
  readonly firstMs: number;
  readonly longestMs: number;
  /** Random share of a delay, 0 to 1, so that nodes do not retry in lockstep; 0.5 by default. */
  readonly jitter?: number;
  /** Returns a number in [0, 1); Math.random by default. */
  readonly random?: () => number;
}): Backoff {
  const { firstMs, longestMs, jitter = 0.5, random = Math.random } = options;
  let currentMs = firstMs;
  return {
    nextMs() {
      const waitMs = currentMs * (1 - jitter + jitter * random());
      currentMs = Math.min(longestMs, currentMs * 2);
      return waitMs;
    },
    reset() {
      currentMs = firstMs;
    },
  };
}

/** Runs `operation` until it succeeds. Throws the last error after `tries` attempts, or the signal's reason. */
export async function retry<T>(operation: () => Promise<T>, options: {
  readonly backoff: Backoff;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** Maximum number of attempts; unlimited by default. */
  readonly tries?: number;
  /** Called after each failure that is followed by another attempt. */
  readonly onRetry?: (error: unknown, waitMs: number) => void;
}): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await operation();
    } catch (error) {
      options.signal?.throwIfAborted();
      if (attempt === options.tries) throw error;
      const waitMs = options.backoff.nextMs();
      options.onRetry?.(error, waitMs);
      await sleep(options.clock, waitMs, options.signal);
    }
  }
}
