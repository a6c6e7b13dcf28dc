/** Limits on how often, and for how much of the time, a channel may sync. */
import type { Clock } from "../../platform/mod.ts";

/** Limits the frequency of an action. */
export interface BoundedFrequency {
  /** The wait before the next action, in milliseconds; 0 if it is permitted now. */
  waitMs(): number;
  /** Counts one action, now. */
  count(): void;
}

/**
 * Allows one action every `periodMs` on average, and `burst` in a row after a pause; a period of 0 is no limit. kube-proxy
 * limits its syncs this way, with minSyncPeriod and a burst of 2.
 */
export function createBoundedFrequency(
  { periodMs, burst, clock }: {
    readonly periodMs: number;
    readonly burst: number;
    readonly clock: Clock;
  },
): BoundedFrequency {
  // When a full burst is available again; each action moves this forward by a period.
  let restedAtMs = -Infinity;
  return {
    waitMs: () => roundedWait(restedAtMs - (burst - 1) * periodMs - clock.monotonic()),
    count() {
      restedAtMs = Math.max(restedAtMs, clock.monotonic()) + periodMs;
    },
  };
}

/** Limits work to a share of the time. */
export interface WorkBudget {
  /** The wait before the next piece of work, in milliseconds; 0 if it may start now. */
  waitMs(): number;
  /** Counts a piece of work that has just ended. */
  spend(durationMs: number): void;
}

/** Options of `createWorkBudget`. */
export interface WorkBudgetOptions {
  /** The share of the time that sustained work may take: 0.2 for a fifth. */
  readonly share: number;
  /** The period over which the share is counted; after an idle period, this much of it may be spent without waiting. */
  readonly windowMs: number;
  /** The longest wait; it takes precedence over the share if single pieces of work last longer than `share` of it. */
  readonly longestWaitMs: number;
  readonly clock: Clock;
}

/** An unspent budget: a leaky bucket that work fills and time drains. */
export function createWorkBudget({ share, windowMs, longestWaitMs, clock }: WorkBudgetOptions): WorkBudget {
  const capacityMs = share * windowMs;
  let filledMs = 0, updatedAtMs = clock.monotonic();
  const drain = () => {
    const nowMs = clock.monotonic();
    filledMs = Math.max(0, filledMs - (nowMs - updatedAtMs) * share);
    updatedAtMs = nowMs;
  };
  return {
    waitMs() {
      drain();
      return roundedWait((filledMs - capacityMs) / share);
    },
    spend(durationMs) {
      drain();
      filledMs = Math.min(filledMs + durationMs, capacityMs + share * longestWaitMs);
    },
  };
}

/** Timers count whole milliseconds, so less than half of one is no wait. */
function roundedWait(waitMs: number): number {
  return waitMs < 0.5 ? 0 : waitMs;
}
