import type { Clock } from "../../platform/mod.ts";

/** Measures how long each change takes to the last watcher. */
export interface Lag {
  /** The store has this new revision. */
  changed(revision: number): void;
  /** Adds a watcher. Changes wait for it once it has received a complete state. */
  join(): WatcherLag;
}

/** The part of one watcher. */
export interface WatcherLag {
  /** The watcher has received everything up to this revision. */
  upToDate(revision: number): void;
  /** Like `upToDate`, but nothing was written: a worker without watchers. */
  skip(revision: number): void;
  /** Removes the watcher; no change waits for it any more. */
  leave(): void;
}

/** A change that some watchers have not received yet. */
interface Change {
  readonly revision: number;
  readonly atMs: number;
  /** The number of watchers without it. */
  without: number;
  /** When the last watcher so far received it. */
  writtenMs: number | undefined;
}

/** The changes that may wait at the same time: a watcher that never asks for its next round would keep all of them. */
const MOST_WAITING = 1000;

/** Options of `createLag`. */
export interface LagOptions {
  readonly clock: Clock;
  /** Takes the time in milliseconds from each change until it was written to the last watcher. */
  readonly onLag?: (lagMs: number) => void;
  /** Called when no watcher is without a revision; `wasWritten` if it was written to any. */
  readonly onReceived?: (revision: number, wasWritten: boolean) => void;
}

/** Follows each change until it was written to the last watcher. */
export function createLag({ clock, onLag = () => {}, onReceived = () => {} }: LagOptions): Lag {
  let waiting: Change[] = [];
  let newest = 0;
  const following = new Set<{ readonly received: number }>();

  /** Counts a watcher off the changes after one revision, up to another. */
  const countOff = (after: number, upTo: number, writtenMs: number | undefined) => {
    for (let i = waiting.length - 1; i >= 0 && waiting[i]!.revision > after; i--) {
      const change = waiting[i]!;
      if (change.revision > upTo) continue;
      change.writtenMs = writtenMs ?? change.writtenMs;
      if (--change.without > 0) continue;
      if (change.writtenMs !== undefined) onLag(change.writtenMs - change.atMs);
      onReceived(change.revision, change.writtenMs !== undefined);
    }
    const first = waiting.findIndex(({ without }) => without > 0);
    if (first !== 0) waiting = first === -1 ? [] : waiting.slice(first);
  };

  return {
    changed(revision) {
      newest = revision;
      // An answer can contain the revision before the store announces it.
      let without = 0;
      for (const { received } of following) if (received < revision) without++;
      if (without === 0) {
        if (following.size > 0) onLag(0);
        onReceived(revision, following.size > 0);
        return;
      }
      waiting.push({ revision, atMs: clock.monotonic(), without, writtenMs: undefined });
      if (waiting.length > MOST_WAITING) waiting.shift();
    },
    join() {
      const own = { received: 0 };
      const received = (revision: number, writtenMs: number | undefined) => {
        if (!following.has(own)) {
          following.add(own);
          // Earlier changes do not wait for it.
          own.received = Math.max(revision, newest);
        } else if (revision > own.received) {
          countOff(own.received, revision, writtenMs);
          own.received = revision;
        }
      };
      return {
        upToDate: (revision) => received(revision, clock.monotonic()),
        skip: (revision) => received(revision, undefined),
        leave() {
          if (following.delete(own)) countOff(own.received, Infinity, undefined);
        },
      };
    },
  };
}
