/**
 * Runs a function once for every combination of its random decisions. It must be deterministic apart from those.
 * @returns each outcome with its probability
 */
export function everyOutcome<T>(
  run: (chance: (probability: number) => boolean) => T,
): { readonly outcome: T; readonly share: number }[] {
  const outcomes: { outcome: T; share: number }[] = [];
  const open: (readonly boolean[])[] = [[]];
  for (let known = open.pop(); known !== undefined; known = open.pop()) {
    const decisions: boolean[] = [];
    const prefix = known;
    let share = 1;
    const outcome = run((probability) => {
      if (probability <= 0 || probability >= 1) return probability >= 1;
      const next = prefix[decisions.length];
      if (next === undefined) open.push([...decisions, false]);
      const decision = next ?? true;
      decisions.push(decision);
      share *= decision ? probability : 1 - probability;
      return decision;
    });
    outcomes.push({ outcome, share });
  }
  return outcomes;
}
