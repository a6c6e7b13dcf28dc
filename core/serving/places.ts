/** So many may do something at once; the others wait in the order in which they came. */
export interface Places {
  /** One more who will want a place now and then. */
  join(): Place;
  /** How many have a place. */
  taken(): number;
}

/** What one of them has, or waits for. */
export interface Place {
  /** Resolves with a place, at once where it has one; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<void>;
  /** Gives the place to whoever has waited longest. Does nothing without one. */
  leave(): void;
}

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

  return { join, taken: () => taken };
}
