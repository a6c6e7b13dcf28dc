import type { Clock } from "../../platform/mod.ts";

/**
 * Decides how long the watches of one resource may be silent. kube-apiserver sends bookmarks about every minute; if they stop
 * after having come before, the connection is dead even if the kernel considers it open.
 */
export interface WatchTimeout {
  /** The server started to answer a watch of this duration. */
  begin(timeoutSeconds: number): void;
  /** An event was received. */
  received(isBookmark: boolean): void;
  /** The maximum silence of the watch from now on, in milliseconds. */
  silenceMs(): number;
  /**
   * Called after the watch was silent for that long. Returns whether it received nothing at all although earlier watches had
   * bookmarks; then bookmarks are no longer expected until the next one.
   */
  missedBookmarks(): boolean;
}

/** Options of `createWatchTimeout`. */
export interface WatchTimeoutOptions {
  readonly clock: Clock;
  /** A number from 0 up to 1, so that many nodes do not time out at the same moment. */
  readonly random: () => number;
  /** A fixed timeout in milliseconds. */
  readonly fixedMs: number | undefined;
}

const WATCH_GRACE_MS = 30_000;
/** The range of the timeout in intervals between bookmarks. */
const GAPS = { fewest: 1.5, most: 2.5 };
const SHORTEST_MS = 5_000;

/** A timeout before any bookmarks: a watch may be silent for its whole duration. */
export function createWatchTimeout({ clock, random, fixedMs }: WatchTimeoutOptions): WatchTimeout {
  let longestGapMs: number | undefined;
  let lengthMs = 0;
  let gaps = GAPS.fewest;
  let lastBookmarkMs = 0;
  let nothingReceived = true;
  return {
    begin(timeoutSeconds) {
      lengthMs = timeoutSeconds * 1000 + WATCH_GRACE_MS;
      gaps = GAPS.fewest + (GAPS.most - GAPS.fewest) * random();
      lastBookmarkMs = clock.monotonic();
      nothingReceived = true;
    },
    received(isBookmark) {
      nothingReceived = false;
      if (!isBookmark) return;
      const nowMs = clock.monotonic();
      longestGapMs = Math.max(longestGapMs ?? 0, nowMs - lastBookmarkMs);
      lastBookmarkMs = nowMs;
    },
    silenceMs() {
      if (fixedMs !== undefined) return fixedMs;
      return longestGapMs === undefined ? lengthMs : Math.min(lengthMs, Math.max(SHORTEST_MS, longestGapMs * gaps));
    },
    missedBookmarks() {
      if (!nothingReceived || longestGapMs === undefined) return false;
      longestGapMs = undefined;
      return true;
    },
  };
}
