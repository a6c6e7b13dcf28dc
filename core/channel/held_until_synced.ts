/** Holds values back until the changes they belong to are in effect. */
export interface HeldUntilSynced<K, V> {
  /** Holds a value that belongs to the changes planned now; it replaces an earlier value of `key`. */
  hold(key: K, value: V): void;
  /** Drops the value of `key`. */
  drop(key: K): void;
  /** Everything planned until now was sent as part of `revision`. */
  sent(revision: number): void;
  /** Everything up to `revision` is in effect except the keys in `failed`. Returns the values to release. */
  inEffect(revision: number, failed: ReadonlySet<K>): ReadonlyMap<K, V>;
}

/**
 * Holds nothing yet. It keeps one value per key and stage, however many syncs fail; values sent with an earlier revision then
 * wait for the latest one.
 */
export function createHeldUntilSynced<K, V>(): HeldUntilSynced<K, V> {
  const planned = new Map<K, V>();
  const sentValues = new Map<K, V>();
  let revisionSent = 0;
  return {
    hold: (key, value) => void planned.set(key, value),
    drop(key) {
      planned.delete(key);
      sentValues.delete(key);
    },
    sent(revision) {
      revisionSent = revision;
      for (const [key, value] of planned) sentValues.set(key, value);
      planned.clear();
    },
    inEffect(revision, failed) {
      if (revision < revisionSent) return new Map();
      const released = new Map([...sentValues].filter(([key]) => !failed.has(key)));
      for (const key of released.keys()) sentValues.delete(key);
      return released;
    },
  };
}
