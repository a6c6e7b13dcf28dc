/** A change of a value. */
export interface Change<T> {
  readonly before: T | undefined;
  readonly after: T | undefined;
}

/** Values by key, and their replaced versions, with a limit on the total weight of these. */
export interface Versions<T> {
  readonly values: ReadonlyMap<string, T>;
  /** Sets a value; undefined deletes it. */
  put(key: string, value: T | undefined): void;
  /** Makes what was put since the last call this revision, which must be a new one; returns whether anything has changed. */
  commit(revision: number): boolean;
  /** The changes since a revision, in the order of the first changes; undefined if no longer known. */
  since(revision: number): readonly Change<T>[] | undefined;
}

interface Replaced<T> {
  readonly revision: number;
  readonly key: string;
  readonly before: T | undefined;
  readonly weight: number;
}

interface Kept<T> {
  readonly weightOf: (value: T) => number;
  readonly leastWeight: number;
  /** The newest last; the first ones may have been dropped. */
  replaced: (Replaced<T> | undefined)[];
  /** The index of the first one that was not dropped. */
  first: number;
  replacedWeight: number;
  currentWeight: number;
  /** The revision after which every change is known. */
  floor: number;
}

/** The number of dropped versions at the front of the list after which it is cut. */
const SLACK = 1024;

/** No values. The replaced versions may weigh as much as the current ones, and at least `leastWeight`. */
export function createVersions<T>({ isSame, weightOf, leastWeight }: {
  readonly isSame: (a: T | undefined, b: T | undefined) => boolean;
  readonly weightOf: (value: T) => number;
  readonly leastWeight: number;
}): Versions<T> {
  const values = new Map<string, T>();
  // The values at the last revision of what was put since.
  const touched = new Map<string, T | undefined>();
  const kept: Kept<T> = {
    weightOf,
    leastWeight,
    replaced: [],
    first: 0,
    replacedWeight: 0,
    currentWeight: 0,
    floor: 0,
  };

  return {
    values,
    put(key, value) {
      if (!touched.has(key)) touched.set(key, values.get(key));
      if (value === undefined) values.delete(key);
      else values.set(key, value);
    },
    commit(revision) {
      let isChanged = false;
      for (const [key, before] of touched) {
        const after = values.get(key);
        if (isSame(before, after)) continue;
        isChanged = true;
        keep(kept, revision, key, before, after);
      }
      touched.clear();
      trim(kept);
      return isChanged;
    },
    since(revision) {
      if (revision < kept.floor) return undefined;
      const found = new Map<string, T | undefined>();
      for (let i = firstAfter(kept, revision); i < kept.replaced.length; i++) {
        const { key, before } = kept.replaced[i]!;
        if (!found.has(key)) found.set(key, before);
      }
      return Array.from(found, ([key, before]) => ({ before, after: values.get(key) }))
        .filter(({ before, after }) => !isSame(before, after));
    },
  };
}

function keep<T>(kept: Kept<T>, revision: number, key: string, before: T | undefined, after: T | undefined): void {
  const { weightOf } = kept;
  const weight = before === undefined ? 0 : weightOf(before);
  kept.currentWeight += (after === undefined ? 0 : weightOf(after)) - weight;
  kept.replacedWeight += weight || 1;
  kept.replaced.push({ revision, key, before, weight: weight || 1 });
}

function trim<T>(kept: Kept<T>): void {
  const { replaced } = kept, most = Math.max(kept.leastWeight, kept.currentWeight);
  while (kept.replacedWeight > most && kept.first < replaced.length) {
    const { revision, weight } = replaced[kept.first]!;
    replaced[kept.first++] = undefined;
    kept.replacedWeight -= weight;
    kept.floor = revision;
  }
  if (kept.first < SLACK) return;
  kept.replaced = replaced.slice(kept.first);
  kept.first = 0;
}

function firstAfter<T>({ replaced, first }: Kept<T>, revision: number): number {
  let low = first, high = replaced.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (replaced[middle]!.revision <= revision) low = middle + 1;
    else high = middle;
  }
  return low;
}
