const NOTHING: readonly never[] = Object.freeze([]);

/**
 * The list in as little memory as it needs, for one that is kept: a list that grew by `push` has room for 16 more, and
 * each empty one is an object of its own.
 */
export function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NOTHING : list.slice();
}
