/** A map that records the previous value of each key changed since the last `take`. A reverted change is not recorded. */
export interface ChangingMap<T> {
  get(key: string): T | undefined;
  keys(): Iterable<string>;
  /** The values; the iteration may continue after changes. */
  values(): Iterable<T>;
  /** Sets the value of a key. Returns whether that changed anything. */
  set(key: string, value: T): boolean;
  delete(key: string): void;
  /** The number of keys whose value has changed since the last `take`. */
  pending(): number;
  /** The number of calls of `set` and `delete` so far, including those that changed nothing. */
  total(): number;
  /** The keys whose value has changed since the last `take`, with their values at that time. */
  take(): ReadonlyMap<string, T | undefined>;
}

/** An empty map; `same` compares two values. */
export function createChangingMap<T>(same: (a: T, b: T) => boolean): ChangingMap<T> {
  const values = new Map<string, T>();
  let previous = new Map<string, T | undefined>();
  let total = 0;

  const equal = (a: T | undefined, b: T | undefined) => a === undefined || b === undefined ? a === b : same(a, b);

  const put = (key: string, value: T | undefined) => {
    total++;
    const before = values.get(key);
    if (equal(before, value)) return false;
    if (value === undefined) values.delete(key);
    else values.set(key, value);
    if (!previous.has(key)) previous.set(key, before);
    else if (equal(previous.get(key), value)) previous.delete(key);
    return true;
  };

  return {
    get: (key) => values.get(key),
    keys: () => values.keys(),
    values: () => values.values(),
    set: put,
    delete: (key) => void put(key, undefined),
    pending: () => previous.size,
    total: () => total,
    take() {
      const taken = previous;
      previous = new Map();
      return taken;
    },
  };
}
