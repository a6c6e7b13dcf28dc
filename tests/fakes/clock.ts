import type { Clock } from "../../platform/clock.ts";

/** A clock that only moves when a test advances it. */
export interface FakeClock extends Clock {
  /**
   * Advances by `ms` and fires due timers in order, including those set by earlier ones. Nothing asynchronous runs in
   * between.
   */
  advance(ms: number): void;
  /** Like `advance`, but settles pending promises before, between and after the timers. */
  advanceSettled(ms: number): Promise<void>;
  /** The milliseconds until each timer fires, in ascending order. */
  pending(): readonly number[];
}

/**
 * Creates a fake clock. Wall time starts at `startMs`, monotonic time at 0. `advanceSettled` awaits `settle` before and after
 * each timer; tests without I/O are faster with `promisesSettled`.
 */
export function createFakeClock(startMs = 1_700_000_000_000, settle: () => Promise<void> = settled): FakeClock {
  interface Timer {
    readonly dueMs: number;
    readonly callback: () => void;
  }
  let elapsedMs = 0;
  // Ordered by due time, then by creation.
  const timers: Timer[] = [];

  const fireNext = (untilMs: number): boolean => {
    const timer = timers[0];
    if (timer === undefined || timer.dueMs > untilMs) return false;
    timers.shift();
    elapsedMs = Math.max(elapsedMs, timer.dueMs);
    timer.callback();
    return true;
  };

  return {
    now: () => startMs + elapsedMs,
    monotonic: () => elapsedMs,
    schedule(delayMs, callback) {
      const timer: Timer = { dueMs: elapsedMs + Math.max(0, delayMs), callback };
      const later = timers.findIndex((other) => other.dueMs > timer.dueMs);
      timers.splice(later === -1 ? timers.length : later, 0, timer);
      return () => {
        const index = timers.indexOf(timer);
        if (index !== -1) timers.splice(index, 1);
      };
    },
    advance(ms) {
      const untilMs = elapsedMs + ms;
      while (fireNext(untilMs));
      elapsedMs = untilMs;
    },
    async advanceSettled(ms) {
      const untilMs = elapsedMs + ms;
      do await settle(); while (fireNext(untilMs));
      elapsedMs = untilMs;
      await settle();
    },
    pending: () => timers.map((timer) => timer.dueMs - elapsedMs),
  };
}

/** Resolves once all promises have settled that depend on neither timers nor I/O. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** Resolves once all promises have settled that depend on neither timers nor I/O, and leaves no time for I/O. */
export function promisesSettled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
