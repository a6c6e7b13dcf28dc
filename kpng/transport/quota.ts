import type { Clock } from "../../platform/mod.ts";

/** A number of events that are allowed in each window of time. */
export interface Quota {
  /** Counts one event. Returns false where it is one too many. */
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
