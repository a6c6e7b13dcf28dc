/**
 * Runs something that decides by chance, once for every way in which its decisions can fall. It must do the same each
 * time beside that.
 * @returns what came out of each, with the probability of that
 */
export function everyOutcome<T>(
  run: (chance: (probability: number) => boolean) => T,
): { readonly outcome: T; readonly share: number }[] {
  const outcomes: { outcome: T; share: number }[] = [];
  const open: (readonly boolean[])[] = [[]];
  for (let known = open.pop(); known !== undefined; known = open.pop()) {
    const taken: boolean[] = [];
    const given = known;
    let share = 1;
    const outcome = run((probability) => {
      if (probability <= 0 || probability >= 1) return probability >= 1;
      const next = given[taken.length];
      if (next === undefined) open.push([...taken, false]);
      const decision = next ?? true;
      taken.push(decision);
      share *= decision ? probability : 1 - probability;
      return decision;
    });
    outcomes.push({ outcome, share });
  }
  return outcomes;
}
