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
  // A set keeps the order and allows waiters to leave.
  const waiting = new Set<() => void>();

  const join = (): SemaphoreSlot => {
    let holds = false;
    return {
      async enter(signal) {
        signal.throwIfAborted();
        if (holds) return;
        if (taken === count) await turn(signal);
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

  /** Resolves when a slot was handed over, which does not change the number of occupied slots. */
  const turn = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const onAbort = () => {
        waiting.delete(next);
        reject(signal.reason);
      };
      const next = () => {
        waiting.delete(next);
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      waiting.add(next);
      signal.addEventListener("abort", onAbort, { once: true });
    });

  const holdLimitMs = () => waiting.size > count ? SHORT_HOLD_MS : LONG_HOLD_MS;

  return { join, taken: () => taken, holdLimitMs };
}
