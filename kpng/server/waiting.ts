import type { Clock } from "../../platform/mod.ts";
import type { Store } from "../store/mod.ts";

/** Waits until its function in `waiting`, in order of arrival, is called. Rejects with the signal's reason. */
export function waitAmong(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      waiting.delete(wake);
      reject(signal.reason);
    };
    const wake = () => {
      waiting.delete(wake);
      signal.removeEventListener("abort", onAbort);
      resolve();
    };
    waiting.add(wake);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** The revisions of a store, in this isolate or another one. */
export type Revisions = Pick<Store, "ready" | "revision" | "subscribe">;

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

/** Limits concurrency; waiters get slots in the order of their arrival. */
export interface Semaphore {
  /** Adds a participant, which can acquire a slot repeatedly. */
  join(): SemaphoreSlot;
  taken(): number;
  /** The maximum time that a holder keeps its slot without progress: shorter if many wait. */
  holdLimitMs(): number;
}

/** A participant's access to the slots. */
export interface SemaphoreSlot {
  /** Resolves when it holds a slot; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<void>;
  /** Releases the slot to the longest waiter, if it holds one. */
  leave(): void;
}

/** The limits with at most as many waiters as slots, and with more. A nearby reader accepts a chunk in a few milliseconds. */
const LONG_HOLD_MS = 250;
const SHORT_HOLD_MS = 25;

/** Creates a semaphore with this many slots. */
export function createSemaphore(count: number): Semaphore {
  let taken = 0;
  const waiting = new Set<() => void>();

  const join = (): SemaphoreSlot => {
    let holds = false;
    return {
      async enter(signal) {
        signal.throwIfAborted();
        if (holds) return;
        // A slot that is handed over stays taken.
        if (taken === count) await waitAmong(waiting, signal);
        else taken++;
        holds = true;
      },
      leave() {
        if (!holds) return;
        holds = false;
        const [next] = waiting;
        if (next === undefined) taken--;
        else next();
      },
    };
  };

  const holdLimitMs = () => waiting.size > count ? SHORT_HOLD_MS : LONG_HOLD_MS;

  return { join, taken: () => taken, holdLimitMs };
}

/** A deadline that is moved with every write: moving or clearing it starts no timer. */
export interface Deadline {
  /** Calls `onPassed` after this time, unless the deadline is moved or cleared before. */
  set(delayMs: number): void;
  clear(): void;
  /** Clears the deadline and its timer; called last. */
  stop(): void;
}

/** A deadline that is not set. */
export function createDeadline(clock: Clock, onPassed: () => void): Deadline {
  let dueMs: number | undefined;
  // When the timer fires.
  let timerMs = Infinity;
  let cancel = () => {};

  const startTimer = (delayMs: number) => {
    cancel();
    timerMs = clock.monotonic() + delayMs;
    cancel = clock.schedule(delayMs, fire);
  };

  const fire = () => {
    timerMs = Infinity;
    if (dueMs === undefined) return;
    const leftMs = dueMs - clock.monotonic();
    if (leftMs > 0) return startTimer(leftMs);
    dueMs = undefined;
    onPassed();
  };

  const clear = () => {
    dueMs = undefined;
  };

  return {
    set(delayMs) {
      dueMs = clock.monotonic() + delayMs;
      if (dueMs < timerMs) startTimer(delayMs);
    },
    clear,
    stop() {
      clear();
      cancel();
    },
  };
}
