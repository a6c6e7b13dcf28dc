import { type Clock, sleep } from "../../platform/mod.ts";

/**
 * The waits that all reflectors of one API server share, so that an outage ends for all of them soon after the server
 * answers, at the price of one request every few seconds instead of one for each reflector.
 */
export interface Recovery {
  /**
   * Waits after a failure, for `waitMs` at the most. One of those that wait, the scout, waits `SCOUT_MS` at the most
   * and asks again; the others end their waits early once a request works. Rejects with the signal's reason.
   */
  wait(waitMs: number, signal: AbortSignal): Promise<void>;
  /** A request worked: those who wait try again, each after a random part of `SPREAD_MS`. */
  answered(): void;
}

/** The parts of a recovery. */
export interface RecoveryOptions {
  readonly clock: Clock;
  /** A number from 0 up to 1, so that many nodes do not ask at the same moment. */
  readonly random: () => number;
}

/** The longest wait of the scout, and the time over which those who follow it spread, in milliseconds: less than 5 s in all. */
const SCOUT_MS = 3_600;
const SPREAD_MS = 900;

/** A recovery for which nobody waits yet. */
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
