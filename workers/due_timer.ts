import type { Clock } from "../platform/mod.ts";

/** A timer that remembers that its time has come until it is cleared. */
export interface DueTimer {
  isDue(): boolean;
  /** Starts it again with this delay. */
  schedule(delayMs: number): void;
  clear(): void;
}

/** A timer that is not running; `onDue` is called when its time has come. */
export function createDueTimer(clock: Clock, onDue: () => void): DueTimer {
  let isDue = false;
  let cancel: (() => void) | undefined;
  const clear = () => {
    isDue = false;
    cancel?.();
    cancel = undefined;
  };
  return {
    isDue: () => isDue,
    schedule(delayMs) {
      clear();
      cancel = clock.schedule(delayMs, () => {
        isDue = true;
        onDue();
      });
    },
    clear,
  };
}
