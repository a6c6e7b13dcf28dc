import type { Clock } from "../../platform/mod.ts";

/** Says when work may begin that must not take more than a share of the time. */
export interface WorkBudget {
  /** How long the next piece of work has to wait, in milliseconds; 0 for not at all. */
  waitMs(): number;
  /** Counts a piece of work that has ended now. */
  spend(durationMs: number): void;
}

/** The size of a budget. */
export interface WorkBudgetOptions {
  /** The share of the time that work may take when it lasts: 0.2 for a fifth. */
  readonly share: number;
  /** The time over which the share is counted: after a rest, this share of it may be spent without a wait. */
  readonly windowMs: number;
  /** The longest wait; it goes before the share where single pieces of work take longer than `share` of it. */
  readonly longestWaitMs: number;
  readonly clock: Clock;
}

/** A budget of which nothing is spent: a leaky bucket, which work fills and time empties. */
export function createWorkBudget({ share, windowMs, longestWaitMs, clock }: WorkBudgetOptions): WorkBudget {
  const capacityMs = share * windowMs;
  let filledMs = 0, asOfMs = clock.monotonic();
  const drain = () => {
    const nowMs = clock.monotonic();
    filledMs = Math.max(0, filledMs - (nowMs - asOfMs) * share);
    asOfMs = nowMs;
  };
  return {
    waitMs() {
      drain();
      const waitMs = (filledMs - capacityMs) / share;
      // Timers count whole milliseconds: half of one early is on time.
      return waitMs < 0.5 ? 0 : waitMs;
    },
    spend(durationMs) {
      drain();
      filledMs = Math.min(filledMs + durationMs, capacityMs + share * longestWaitMs);
    },
  };
}
