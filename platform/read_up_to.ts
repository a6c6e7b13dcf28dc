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
