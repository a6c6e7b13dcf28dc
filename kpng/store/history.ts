/** The replaced versions of values, newest last, with a limit on their total weight. */
export interface History<T> {
  /** `before` was replaced at this revision. Revisions only grow. */
  add(revision: number, key: string, before: T | undefined, weight: number): void;
  /** Drops the oldest versions until the rest weighs at most this. */
  trim(mostWeight: number): void;
  /** The values at `revision` of everything that changed since, by key; undefined if no longer known. */
  since(revision: number): ReadonlyMap<string, T | undefined> | undefined;
}

interface Entry<T> {
  readonly revision: number;
  readonly key: string;
  readonly before: T | undefined;
  readonly weight: number;
}

/** The number of dropped entries at the front of the list after which it is cut. */
const SLACK = 1024;

/** An empty history. */
export function createHistory<T>(): History<T> {
  let entries: (Entry<T> | undefined)[] = [];
  let first = 0;
  let weight = 0;
  // The revision after which every change is known.
  let floor = 0;

  const firstAfter = (revision: number): number => {
    let low = first, high = entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (entries[middle]!.revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  return {
    add(revision, key, before, entryWeight) {
      entries.push({ revision, key, before, weight: entryWeight });
      weight += entryWeight;
    },
    trim(mostWeight) {
      while (weight > mostWeight && first < entries.length) {
        const { revision, weight: gone } = entries[first]!;
        entries[first++] = undefined;
        weight -= gone;
        floor = revision;
      }
      if (first < SLACK) return;
      entries = entries.slice(first);
      first = 0;
    },
    since(revision) {
      if (revision < floor) return undefined;
      const found = new Map<string, T | undefined>();
      for (let i = firstAfter(revision); i < entries.length; i++) {
        const { key, before } = entries[i]!;
        if (!found.has(key)) found.set(key, before);
      }
      return found;
    },
  };
}
