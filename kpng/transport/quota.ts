import type { Clock } from "../../platform/mod.ts";

/** Limits the number of events per time window. */
export interface Quota {
  /** Counts an event; returns false if it exceeds the quota. */
  take(): boolean;
}

/** A quota of `count` events in each window of `windowMs`; a window starts with the first event after the last one. */
export function createQuota(count: number, windowMs: number, clock: Clock): Quota {
  let startMs = clock.monotonic();
  let taken = 0;
  return {
    take() {
      const nowMs = clock.monotonic();
      if (nowMs - startMs > windowMs) {
        startMs = nowMs;
        taken = 0;
      }
      return ++taken <= count;
    },
  };
}
