import type { Clock } from "../../platform/clock.ts";

/** A clock that stands still until it is told to go on. */
export interface FakeClock extends Clock {
  /**
   * Goes on by `ms`; timers that fall due on the way are called in the order of their times, those that they set on
   * the way among them. Nothing asynchronous runs in between.
   */
  advance(ms: number): void;
  /** As `advance`, and lets everything that waits for a promise run before the first timer, between two and after. */
  advanceSettled(ms: number): Promise<void>;
  /** In how many milliseconds each timer falls due, the nearest first. */
  pending(): readonly number[];
}

/** A fake clock. Its wall time starts at `startMs`, its monotonic time at 0. */
export function createFakeClock(startMs = 1_700_000_000_000): FakeClock {
  interface Timer {
    readonly dueMs: number;
    readonly callback: () => void;
  }
  let elapsedMs = 0;
  // In the order in which they fall due, and were set where that is the same.
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
      do await settled(); while (fireNext(untilMs));
      elapsedMs = untilMs;
      await settled();
    },
    pending: () => timers.map((timer) => timer.dueMs - elapsedMs),
  };
}

/** Resolves once every promise that can settle without a timer or the outside world has done so. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
