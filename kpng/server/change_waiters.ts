import type { Clock } from "../../platform/mod.ts";
import type { Revisions } from "./state.ts";
import { waitAmong } from "./waiting.ts";

/** Wakes waiting watchers after changes, a few per turn, so that thousands of them do not block other work. */
export interface ChangeWaiters {
  /** Resolves when the store is past that revision; rejects with the signal's reason. */
  changed(after: number, signal: AbortSignal): Promise<void>;
  close(): void;
}

const WAKE_PER_TURN = 250;

/** Waiters for new revisions. */
export function createChangeWaiters(store: Revisions, clock: Clock): ChangeWaiters {
  const waiting = new Set<() => void>();

  const unsubscribe = store.subscribe(() => {
    const woken = [...waiting];
    waiting.clear();
    wake(woken, 0);
  });

  const wake = (woken: readonly (() => void)[], from: number) => {
    for (const resolve of woken.slice(from, from + WAKE_PER_TURN)) resolve();
    if (from + WAKE_PER_TURN < woken.length) clock.schedule(0, () => wake(woken, from + WAKE_PER_TURN));
  };

  return {
    changed(after, signal) {
      if (signal.aborted) return Promise.reject(signal.reason);
      if (store.ready() && store.revision() > after) return Promise.resolve();
      return waitAmong(waiting, signal);
    },
    close: unsubscribe,
  };
}
