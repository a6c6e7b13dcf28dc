import { waitAmong } from "./waiting.ts";

/** Limits concurrency; waiters get slots in the order of their arrival. */
export interface Semaphore {
  /** Adds a participant, which can acquire a slot repeatedly. */
  join(): SemaphoreSlot;
  /** The number of occupied slots. */
  taken(): number;
  /** How long a holder may keep its slot without progress: shorter if many wait. */
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
