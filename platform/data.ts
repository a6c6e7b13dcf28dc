/** Plain data in memory: equality, compact copies, joined bytes, bounded reads, JSON. */

const EMPTY: readonly never[] = Object.freeze([]);

/** Copies a list without spare capacity: one grown by `push` has room for 16 more items. Empty lists share one object. */
export function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? EMPTY : list.slice();
}

/**
 * Joins the parts into a flat string. V8 represents the result of `+` or a template as a tree of its parts, and keeps that
 * next to the flat copy once the string was read: twice the memory.
 */
export function joinFlat(separator: string, ...parts: readonly (string | number)[]): string {
  return parts.join(separator);
}

/** Whether two values of plain data are deeply equal; an undefined property equals a missing one. */
export function sameData(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    // Large lists mostly have the same objects.
    for (let i = 0; i < a.length; i++) if (a[i] !== b[i] && !sameData(a[i], b[i])) return false;
    return true;
  }
  if (Array.isArray(b)) return false;
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  for (const key in left) if (!sameData(left[key], right[key])) return false;
  for (const key in right) if (!(key in left) && right[key] !== undefined) return false;
  return true;
}

/** Joins pieces of bytes. */
export function joinBytes(pieces: Iterable<Uint8Array>): Uint8Array<ArrayBuffer> {
  const all = [...pieces];
  const bytes = new Uint8Array(all.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of all) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** Reads up to `most` bytes, or until the end. */
export async function readUpTo(
  source: { read(into: Uint8Array): Promise<number | null> },
  most: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(most);
  let filled = 0;
  while (filled < most) {
    const count = await source.read(bytes.subarray(filled));
    if (count === null) break;
    filled += count;
  }
  return bytes.subarray(0, filled);
}

/** Parses a JSON object, a hundred times faster than as YAML; undefined for any other text, which may be YAML. */
export function parseJsonObject(text: string): Record<string, unknown> | undefined {
  if (!/^\s*\{/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
