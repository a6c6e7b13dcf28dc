/** Compact representations of long-lived data. */

const EMPTY: readonly never[] = Object.freeze([]);

/** Copies a list without spare capacity: one grown by `push` has room for 16 more items. Empty lists share one object. */
export function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? EMPTY : list.slice();
}

/**
 * Joins the parts to a flat string. V8 represents the result of `+` or a template as a tree of its parts, and keeps that
 * next to the flat copy once the string was read: twice the memory.
 */
export function joinFlat(separator: string, ...parts: readonly (string | number)[]): string {
  return parts.join(separator);
}
