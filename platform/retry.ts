import { type Clock, sleep } from "./clock.ts";

/** How the waits between tries grow. */
export interface BackoffOptions {
  /** The first wait. */
  readonly firstMs: number;
  /** No wait is longer. */
  readonly longestMs: number;
  /** What a wait is multiplied by for the next; 2 by default. */
  readonly factor?: number;
  /** The share of a wait that is left to chance, 0 to 1, so that many nodes do not retry in step; 0.5 by default. */
  readonly jitter?: number;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

/** The waits of one thing that is tried again and again. */
export interface Backoff {
  /** The next wait in milliseconds. */
  nextMs(): number;
  /** Starts again from the first wait: the thing has worked. */
  reset(): void;
}

/** Exponential backoff with jitter. */
export function createBackoff(options: BackoffOptions): Backoff {
  const { firstMs, longestMs, factor = 2, jitter = 0.5, random = Math.random } = options;
  let currentMs = firstMs;
  return {
    nextMs() {
      const waitMs = currentMs * (1 - jitter + jitter * random());
      currentMs = Math.min(longestMs, currentMs * factor);
      return waitMs;
    },
    reset() {
      currentMs = firstMs;
    },
  };
}

/** What `retry` needs beside the operation. */
export interface RetryOptions {
  readonly backoff: Backoff;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** How many tries there are in all; without it, there is no end but the signal's. */
  readonly tries?: number;
  /** Told of every failure that will be followed by another try. */
  readonly onRetry?: (error: unknown, waitMs: number) => void;
}

/** Runs `operation` until it succeeds. Throws its last error when the tries are used up, or the signal's reason. */
export async function retry<T>(operation: () => Promise<T>, options: RetryOptions): Promise<T> {
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
