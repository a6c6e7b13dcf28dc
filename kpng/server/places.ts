/** So many may do something at once; the others wait in the order in which they came. */
export interface Places {
  /** One more who will want a place now and then. */
  join(): Place;
  /** How many have a place. */
  taken(): number;
  /** How long the holder of a place may keep it without taking anything: less, the more wait for one. */
  patienceMs(): number;
}

/** What one of them has, or waits for. */
export interface Place {
  /** Resolves with a place, at once where it has one; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<void>;
  /** Gives the place to whoever has waited longest. Does nothing without one. */
  leave(): void;
}

/** Patience while no more wait than there are places, and while more do. A piece takes a reader nearby a few milliseconds. */
const LONG_PATIENCE_MS = 250;
const SHORT_PATIENCE_MS = 25;

/** Places for so many at once. */
export function createPlaces(count: number): Places {
  let taken = 0;
  // A set, since those who wait can also go: it keeps their order.
  const waiting = new Set<() => void>();

  const join = (): Place => {
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

  /** Resolves when a place was handed over, which leaves the number of those that are taken as it is. */
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

  const patienceMs = () => waiting.size > count ? SHORT_PATIENCE_MS : LONG_PATIENCE_MS;

  return { join, taken: () => taken, patienceMs };
}
