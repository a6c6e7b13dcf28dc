import type { Clock } from "../../platform/mod.ts";

/** The least time from the start of a pass to that of the next, in milliseconds. */
export const PASS_INTERVAL_MS = 1_000;

/**
 * Limits passes over the conntrack table, each of which reads all entries: one at a time, at most one a second. What is noted in
 * between shares the next one.
 */
interface Passes {
  /**
   * Starts a pass, which must not reject, unless it is too early.
   * @returns the time after which to try again, in milliseconds; undefined if the pass was started
   */
  start(pass: () => Promise<void>): number | undefined;
  isRunning(): boolean;
}

/** The order in which each namespace has its first item before any has its second, and so on. */
export function inTurns<T>(items: readonly T[], namespaceOf: (item: T) => string): T[] {
  const seen = new Map<string, number>();
  return items.map((item) => {
    const namespace = namespaceOf(item), turn = seen.get(namespace) ?? 0;
    seen.set(namespace, turn + 1);
    return { item, turn };
  }).sort((a, b) => a.turn - b.turn).map(({ item }) => item);
}

/** Creates the limit of passes of one kind. */
export function createPasses(clock: Clock): Passes {
  let startedMs = -Infinity, isRunning = false;
  return {
    start(pass) {
      const waitMs = startedMs + PASS_INTERVAL_MS - clock.monotonic();
      if (waitMs > 0) return waitMs;
      if (isRunning) return PASS_INTERVAL_MS;
      startedMs = clock.monotonic();
      isRunning = true;
      void pass().finally(() => isRunning = false);
    },
    isRunning: () => isRunning,
  };
}
