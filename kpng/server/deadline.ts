import type { Clock } from "../../platform/mod.ts";

/** A deadline that is moved with every write: moving or clearing it starts no timer. */
export interface Deadline {
  /** Calls `onPassed` after this time, unless the deadline is moved or cleared before. */
  set(delayMs: number): void;
  clear(): void;
  /** Clears the deadline and its timer; called last. */
  stop(): void;
}

/** A deadline that is not set. */
export function createDeadline(clock: Clock, onPassed: () => void): Deadline {
  let dueMs: number | undefined;
  // When the timer fires.
  let timerMs = Infinity;
  let cancel = () => {};

  const startTimer = (delayMs: number) => {
    cancel();
    timerMs = clock.monotonic() + delayMs;
    cancel = clock.schedule(delayMs, fire);
  };

  const fire = () => {
    timerMs = Infinity;
    if (dueMs === undefined) return;
    const leftMs = dueMs - clock.monotonic();
    if (leftMs > 0) return startTimer(leftMs);
    dueMs = undefined;
    onPassed();
  };

  const clear = () => {
    dueMs = undefined;
  };

  return {
    set(delayMs) {
      dueMs = clock.monotonic() + delayMs;
      if (dueMs < timerMs) startTimer(delayMs);
    },
    clear,
    stop() {
      clear();
      cancel();
    },
  };
}
