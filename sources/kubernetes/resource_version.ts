/** Whether a resourceVersion is older than another. Both are decimal numbers of any length (KEP-5504). */
export function isBefore(a: string, b: string): boolean {
  if (!/^[1-9]\d*$/.test(a) || !/^[1-9]\d*$/.test(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
}
