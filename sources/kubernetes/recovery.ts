import { type Clock, sleep } from "../../platform/mod.ts";

/**
 * The waits shared by all reflectors of one API server. After an outage all of them recover soon after the server answers, at
 * the cost of one request every few seconds instead of one per reflector.
 */
export interface Recovery {
  /**
   * Waits after a failure, at most `waitMs`. One waiter, the scout, waits at most `SCOUT_MS` and retries; the waits of the others
   * end early when a request succeeds. Rejects with the signal's reason.
   */
  wait(waitMs: number, signal: AbortSignal): Promise<void>;
  /** A request succeeded: the waiters retry, each after a random part of `SPREAD_MS`. */
  answered(): void;
}

/** Options of `createRecovery`. */
export interface RecoveryOptions {
  readonly clock: Clock;
  /** A number from 0 up to 1, so that many nodes do not retry at the same moment. */
  readonly random: () => number;
}

/** The longest wait of the scout, and the spread of the others, in milliseconds; less than 5 s together. */
const SCOUT_MS = 3_600;
const SPREAD_MS = 900;

/** A recovery without waiters. */
export function createRecovery({ clock, random }: RecoveryOptions): Recovery {
  const followers = new Set<() => void>();
  let hasScout = false;

  const scout = async (waitMs: number, signal: AbortSignal) => {
    hasScout = true;
    try {
      await sleep(clock, Math.min(waitMs, SCOUT_MS * (1 + random()) / 2), signal);
    } finally {
      hasScout = false;
    }
  };
  const follow = async (waitMs: number, signal: AbortSignal) => {
    const early = new AbortController();
    const wake = () => early.abort();
    followers.add(wake);
    try {
      await sleep(clock, waitMs, AbortSignal.any([signal, early.signal])).catch(() => {});
    } finally {
      followers.delete(wake);
    }
    signal.throwIfAborted();
    if (early.signal.aborted) await sleep(clock, SPREAD_MS * random(), signal);
  };

  return {
    wait: (waitMs, signal) => hasScout ? follow(waitMs, signal) : scout(waitMs, signal),
    answered() {
      for (const wake of followers) wake();
    },
  };
}
