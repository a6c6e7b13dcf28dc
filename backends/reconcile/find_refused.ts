/** What is tried and asked on the way to what a kernel refuses. */
export interface RefusalSearch<Item, Culprit> {
  /** Writes some of the items, all or nothing; resolves with what the tool says where that fails. */
  readonly attempt: (items: readonly Item[]) => Promise<string | undefined>;
  /** Who is to blame for what the tool says of these items, where that can be told. */
  readonly culpritOf: (items: readonly Item[], failure: string) => Culprit | undefined;
  /** How often something may still be taken apart; counts down. */
  readonly budget: { left: number };
}

/** Who is to blame, what the tool says of it, and the items that have not been written for it. */
export interface Refusal<Item, Culprit> {
  readonly culprit: Culprit;
  readonly failure: string;
  readonly untried: readonly Item[];
}

/**
 * Finds out who makes the kernel refuse a number of items, by halves, in their order; what can be written on the way is.
 * @returns the first one who is to blame; `all written` where the items are refused only as long as they are together;
 *   undefined where nobody can be blamed, or the budget is used up
 */
export async function findRefused<Item, Culprit>(
  items: readonly Item[],
  failure: string,
  { attempt, culpritOf, budget }: RefusalSearch<Item, Culprit>,
): Promise<Refusal<Item, Culprit> | "all written" | undefined> {
  let group = items, said: string | undefined = failure;
  // The halves that have not been tried, the next one last.
  const waiting: (readonly Item[])[] = [];
  for (;;) {
    const culprit = culpritOf(group, said);
    if (culprit !== undefined) return { culprit, failure: said, untried: waiting.toReversed().flat() };
    if (group.length < 2 || budget.left-- <= 0) return undefined;
    const middle = group.length >> 1;
    waiting.push(group.slice(middle), group.slice(0, middle));
    do {
      const next = waiting.pop();
      if (next === undefined) return "all written";
      group = next;
      said = await attempt(group);
    } while (said === undefined);
  }
}
