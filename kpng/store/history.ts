/** The versions of things that were replaced, newest last, bounded by their weight. */
export interface History<T> {
  /** `before` was replaced at this revision. Revisions only grow. */
  add(revision: number, key: string, before: T | undefined, weight: number): void;
  /** Forgets the oldest until what is kept weighs no more than this. */
  trim(mostWeight: number): void;
  /**
   * What everything that changed after `revision` was at that revision, by key; undefined where that is no longer known.
   */
  since(revision: number): ReadonlyMap<string, T | undefined> | undefined;
}

interface Entry<T> {
  readonly revision: number;
  readonly key: string;
  readonly before: T | undefined;
  readonly weight: number;
}

/** How many forgotten entries may wait at the front of the list until it is cut. */
const SLACK = 1024;

/** A history in which nothing has changed. */
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
