/** Values that hold only once the kernel has what they follow from. */
export interface HeldUntilSynced<K, V> {
  /** `value` follows from what is planned now; it replaces an earlier value of `key`. */
  hold(key: K, value: V): void;
  /** Drops what is held of `key`. */
  drop(key: K): void;
  /** Everything planned until now is part of `revision`, which is sent, or was. */
  sent(revision: number): void;
  /** Everything up to `revision` is in effect but for the keys in `failed`. Returns the values that hold from now on. */
  inEffect(revision: number, failed: ReadonlySet<K>): ReadonlyMap<K, V>;
}

/**
 * Holds nothing yet. It keeps one value a key and state, however many syncs fail: what was sent with an earlier revision then
 * waits for the latest one.
 */
export function createHeldUntilSynced<K, V>(): HeldUntilSynced<K, V> {
  const planned = new Map<K, V>();
  const travelling = new Map<K, V>();
  let revisionSent = 0;
  return {
    hold: (key, value) => void planned.set(key, value),
    drop(key) {
      planned.delete(key);
      travelling.delete(key);
    },
    sent(revision) {
      revisionSent = revision;
      for (const [key, value] of planned) travelling.set(key, value);
      planned.clear();
    },
    inEffect(revision, failed) {
      if (revision < revisionSent) return new Map();
      const arrived = new Map([...travelling].filter(([key]) => !failed.has(key)));
      for (const key of arrived.keys()) travelling.delete(key);
      return arrived;
    },
  };
}
