import type { Clock } from "../../platform/mod.ts";

/** Says when something may be done again that must not be done too often. */
export interface BoundedFrequency {
  /** How long to wait before the next time, in milliseconds; 0 for now. */
  waitMs(): number;
  /** It is being done now. */
  count(): void;
}

/**
 * Allows something every `periodMs` on average, and `burst` times in a row after a rest; a period of 0 allows it
 * always. kube-proxy bounds its syncs so, with minSyncPeriod and a burst of 2.
 */
export function createBoundedFrequency(
  { periodMs, burst, clock }: {
    readonly periodMs: number;
    readonly burst: number;
    readonly clock: Clock;
  },
): BoundedFrequency {
  // When a burst would be wholly available again: every time it is done moves this on by a period.
  let restedAtMs = -Infinity;
  return {
    waitMs() {
      const waitMs = restedAtMs - (burst - 1) * periodMs - clock.monotonic();
      // Timers count whole milliseconds: half of one early is on time.
      return waitMs < 0.5 ? 0 : waitMs;
    },
    count() {
      restedAtMs = Math.max(restedAtMs, clock.monotonic()) + periodMs;
    },
  };
}
