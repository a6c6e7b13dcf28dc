import type { Clock } from "../../platform/mod.ts";

/**
 * How long nothing may come on the watches of one resource. A server that sends bookmarks sends them all the time, kube-apiserver
 * about every minute: where they have come and come no more, the connection is dead, whatever the kernel thinks of it.
 */
export interface Patience {
  /** The server has begun to answer a watch that it is to end after this many seconds. */
  begin(timeoutSeconds: number): void;
  /** An event came on it. */
  heard(isBookmark: boolean): void;
  /** How long silence may last on it from now on, in milliseconds. */
  silenceMs(): number;
  /**
   * The watch has gone silent for that long: whether nothing at all came on it, bookmarks having come on others before.
   * That is said once, and bookmarks are not counted on again before the next one.
   */
  wasUnheard(): boolean;
}

/** What a patience is made of. */
export interface PatienceOptions {
  readonly clock: Clock;
  /** A number from 0 up to 1, so that many nodes do not lose their patience at the same moment. */
  readonly random: () => number;
  /** How long silence may last whatever comes, in milliseconds. */
  readonly fixedMs: number | undefined;
}

const WATCH_GRACE_MS = 30_000;
/** What silence may last, in times between bookmarks, at the least and at the most. */
const GAPS = { fewest: 1.5, most: 2.5 };
const SHORTEST_MS = 5_000;

/** The patience with a server of which nothing is known yet: a watch may be silent for all of its length. */
export function createPatience({ clock, random, fixedMs }: PatienceOptions): Patience {
  let longestGapMs: number | undefined;
  let lengthMs = 0;
  let gaps = GAPS.fewest;
  let lastBookmarkMs = 0;
  let isUnheard = true;
  return {
    begin(timeoutSeconds) {
      lengthMs = timeoutSeconds * 1000 + WATCH_GRACE_MS;
      gaps = GAPS.fewest + (GAPS.most - GAPS.fewest) * random();
      lastBookmarkMs = clock.monotonic();
      isUnheard = true;
    },
    heard(isBookmark) {
      isUnheard = false;
      if (!isBookmark) return;
      const nowMs = clock.monotonic();
      longestGapMs = Math.max(longestGapMs ?? 0, nowMs - lastBookmarkMs);
      lastBookmarkMs = nowMs;
    },
    silenceMs() {
      if (fixedMs !== undefined) return fixedMs;
      return longestGapMs === undefined ? lengthMs : Math.min(lengthMs, Math.max(SHORTEST_MS, longestGapMs * gaps));
    },
    wasUnheard() {
      if (!isUnheard || longestGapMs === undefined) return false;
      longestGapMs = undefined;
      return true;
    },
  };
}
