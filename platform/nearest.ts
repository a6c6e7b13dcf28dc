/**
 * The candidate most similar to `name` by edit distance, ignoring case; undefined if all differ in more than this part of
 * its letters.
 */
export function nearest(name: string, candidates: Iterable<string>, part = 1 / 2): string | undefined {
  let best: string | undefined;
  let fewest = Math.max(1, Math.floor(name.length * part)) + 1;
  for (const candidate of candidates) {
    const apart = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (apart < fewest) [best, fewest] = [candidate, apart];
  }
  return best;
}

/** The end of a message: `; did you mean X?`, or nothing if no candidate is similar. */
export function suggestion(name: string, candidates: Iterable<string>): string {
  const meant = nearest(name, candidates);
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      current.push(Math.min(replaced, previous[j]! + 1, current[j - 1]! + 1));
    }
    previous = current;
  }
  return previous[b.length]!;
}
