import type { Clock } from "../platform/mod.ts";

/** A timer that stays due until it is cleared. */
export interface DueTimer {
  isDue(): boolean;
  /** Starts it again with this delay. */
  schedule(delayMs: number): void;
  clear(): void;
}

/** Creates a timer that is not running and calls `onDue` when it expires. */
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
