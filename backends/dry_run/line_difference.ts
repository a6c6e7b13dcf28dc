/** A line that one side has and the other has not: `-` for what the kernel holds, `+` for what it should hold. */
export interface DifferentLine {
  readonly sign: "+" | "-";
  readonly text: string;
}

/** Beyond this many pairs of lines, what is left is not aligned any more. */
const ALIGN_LIMIT = 4_000_000;

/** The lines that differ, in their order; lines that both have are left out. */
export function differentLines(held: readonly string[], wanted: readonly string[]): DifferentLine[] {
  let start = 0, heldEnd = held.length, wantedEnd = wanted.length;
  while (start < heldEnd && start < wantedEnd && held[start] === wanted[start]) start++;
  while (heldEnd > start && wantedEnd > start && held[heldEnd - 1] === wanted[wantedEnd - 1]) {
    heldEnd--;
    wantedEnd--;
  }
  const a = held.slice(start, heldEnd), b = wanted.slice(start, wantedEnd);
  const kept = a.length * b.length > ALIGN_LIMIT ? [] : commonLines(a, b);
  const lines: DifferentLine[] = [];
  let i = 0, j = 0;
  for (const [inA, inB] of [...kept, [a.length, b.length] as const]) {
    while (i < inA) lines.push({ sign: "-", text: a[i++]! });
    while (j < inB) lines.push({ sign: "+", text: b[j++]! });
    i++;
    j++;
  }
  return lines;
}

/** The longest sequence of lines that both have, as pairs of indexes. */
function commonLines(a: readonly string[], b: readonly string[]): (readonly [number, number])[] {
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j]
        ? lengths[(i + 1) * width + j + 1]! + 1
        : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const pairs: (readonly [number, number])[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) i++;
    else j++;
  }
  return pairs;
}
