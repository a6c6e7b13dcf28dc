/**
 * The parts as one string, `separator` between them, for one that is kept: V8 keeps what `+` or a template makes as a tree
 * of its parts, with the whole beside it once that was read, at twice the memory.
 */
export function joinFlat(separator: string, ...parts: readonly (string | number)[]): string {
  return parts.join(separator);
}
