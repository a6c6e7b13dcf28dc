/**
 * The candidate that someone who typed `name` most probably meant: the fewest letters apart, letter case aside, and
 * no more than half of them; undefined where none is that near.
 */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let fewest = Math.max(1, Math.floor(name.length / 2)) + 1;
  for (const candidate of candidates) {
    const apart = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (apart < fewest) [best, fewest] = [candidate, apart];
  }
  return best;
}

/** `; did you mean X?` where a candidate is near enough, otherwise nothing: for the end of a message. */
export function suggestion(name: string, candidates: Iterable<string>): string {
  const meant = nearest(name, candidates);
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

/** How many letters must be put in, taken out or replaced to make one text of the other. */
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
