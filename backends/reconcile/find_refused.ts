/** Parameters of the search for refused items. */
export interface RefusalSearch<Item, Culprit> {
  /** Writes items, all or nothing; returns the tool's message if that fails. */
  readonly attempt: (items: readonly Item[]) => Promise<string | undefined>;
  /** Derives the culprit from a failed attempt; undefined if the items must be bisected. */
  readonly culpritOf: (items: readonly Item[], failure: string) => Culprit | undefined;
  /** The number of bisections left; counts down. */
  readonly budget: { left: number };
}

/** A culprit, the tool's message, and the items that were not written because of it. */
export interface FoundRefusal<Item, Culprit> {
  readonly culprit: Culprit;
  readonly failure: string;
  readonly untried: readonly Item[];
}

/**
 * Bisects items that the kernel refuses together, in their order, and writes the accepted ones on the way.
 * @returns the first culprit; `all written` if the kernel accepts the items in smaller groups; undefined if there is no
 *   culprit or the budget is used up
 */
export async function findRefused<Item, Culprit>(
  items: readonly Item[],
  failure: string,
  { attempt, culpritOf, budget }: RefusalSearch<Item, Culprit>,
): Promise<FoundRefusal<Item, Culprit> | "all written" | undefined> {
  let group = items, message: string | undefined = failure;
  // The halves that have not been tried, the next one last.
  const waiting: (readonly Item[])[] = [];
  for (;;) {
    const culprit = culpritOf(group, message);
    if (culprit !== undefined) return { culprit, failure: message, untried: waiting.toReversed().flat() };
    if (group.length < 2 || budget.left-- <= 0) return undefined;
    const middle = group.length >> 1;
    waiting.push(group.slice(middle), group.slice(0, middle));
    do {
      const next = waiting.pop();
      if (next === undefined) return "all written";
      group = next;
      message = await attempt(group);
    } while (message === undefined);
  }
}
