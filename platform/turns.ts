/** Runs steps one after another, in the order in which they were given. */
interface Turns {
  /** Runs a step after all earlier ones, whether these fail or not. Settles as the step does. */
  take<Result>(step: () => Promise<Result>): Promise<Result>;
  /** Resolves once all steps so far have ended. */
  ended(): Promise<void>;
}

/** Creates turns; none has been taken yet. */
export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  return {
    take(step) {
      const done = last.then(step);
      last = done.catch(() => {});
      return done;
    },
    ended: async () => void await last,
  };
}
