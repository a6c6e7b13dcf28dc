/**
 * A map that knows what has changed since it was last asked: for each changed key what it held then, so that a change
 * that is undone in between disappears.
 */
export interface ChangingMap<T> {
  get(key: string): T | undefined;
  keys(): Iterable<string>;
  /** Sets the value of a key, or deletes it where there is none. Says whether that makes a difference. */
  put(key: string, value: T | undefined): boolean;
  /** How many keys differ from what they held at the last `take`. */
  pending(): number;
  /** The keys that differ from what they held at the last `take`, with what they held then. */
  take(): ReadonlyMap<string, T | undefined>;
}

/** An empty map; `same` says whether two values differ in nothing that matters. */
export function createChangingMap<T>(same: (a: T, b: T) => boolean): ChangingMap<T> {
  const values = new Map<string, T>();
  let previous = new Map<string, T | undefined>();

  const equal = (a: T | undefined, b: T | undefined) => {
    return a === undefined || b === undefined ? a === b : same(a, b);
  };

  return {
    get: (key) => values.get(key),
    keys: () => values.keys(),
    put(key, value) {
      const before = values.get(key);
      if (equal(before, value)) return false;
      if (value === undefined) values.delete(key);
      else values.set(key, value);
      if (!previous.has(key)) previous.set(key, before);
      else if (equal(previous.get(key), value)) previous.delete(key);
      return true;
    },
    pending: () => previous.size,
    take() {
      const taken = previous;
      previous = new Map();
      return taken;
    },
  };
}
