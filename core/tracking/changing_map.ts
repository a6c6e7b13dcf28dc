/** A map that records the previous value of each key changed since the last `take`. A reverted change is not recorded. */
export interface ChangingMap<T> {
  get(key: string): T | undefined;
  keys(): Iterable<string>;
  /** The values; the iteration may continue after changes. */
  values(): Iterable<T>;
  /** Sets the value of a key, or deletes the key if the value is undefined. Returns whether that changed anything. */
  put(key: string, value: T | undefined): boolean;
  /** The number of keys whose value has changed since the last `take`. */
  pending(): number;
  /** The keys whose value has changed since the last `take`, with their values at that time. */
  take(): ReadonlyMap<string, T | undefined>;
}

/** An empty map; `same` compares two values. */
export function createChangingMap<T>(same: (a: T, b: T) => boolean): ChangingMap<T> {
  const values = new Map<string, T>();
  let previous = new Map<string, T | undefined>();

  const equal = (a: T | undefined, b: T | undefined) => {
    return a === undefined || b === undefined ? a === b : same(a, b);
  };

  return {
    get: (key) => values.get(key),
    keys: () => values.keys(),
    values: () => values.values(),
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
