import type { SyncProblem } from "../../core/model/mod.ts";
import type { Logger } from "../../platform/mod.ts";

/** Services or parts of them that the kernel refuses, by key, until they change or are tried again. */
export interface Refusals<Key> {
  /** Logs and keeps a refusal. */
  add(key: Key, refusal: Refusal): void;
  /** Whether exactly this value is refused; a different value under the same key ends the refusal. */
  has(key: Key, wanted?: unknown): boolean;
  /** Ends the refusals of these keys. */
  forget(keys: Iterable<Key>): void;
  /** Ends the refusals that may be tried again at this time; returns their keys. */
  takeAll(nowMs?: number): readonly Key[];
  /** The keys of all refusals. */
  keys(): Iterable<Key>;
  problems(): SyncProblem[];
  problemOf(key: Key): SyncProblem | undefined;
}

interface Refusal {
  /** The refused part: `rules of default/web:http`. */
  readonly what: string;
  /** The state of the refused part in the kernel. */
  readonly effect: "left out" | "unchanged";
  readonly servicePort: string | undefined;
  /** The tool's message. */
  readonly failure: string;
  /** The refused value, if `has` is called with one. */
  readonly wanted?: unknown;
  /** The monotonic time before which comparisons do not try it again. */
  readonly notBeforeMs?: number;
}

/** No refusals yet. */
export function createRefusals<Key>(logger: Logger): Refusals<Key> {
  const refused = new Map<Key, Pick<Refusal, "wanted" | "notBeforeMs"> & { readonly problem: SyncProblem }>();
  return {
    add(key, { what, effect, servicePort, failure, wanted, notBeforeMs }) {
      const until = `${notBeforeMs === undefined ? "the next" : "a later"} comparison`;
      const message =
        `the kernel refuses the ${what} (${effect} until it changes or ${until} with the kernel): ${failure}`;
      logger.error(`the kernel refused a change, retrying at ${until}`, {
        service: servicePort,
        refused: what,
        effect,
        error: failure,
      });
      refused.set(key, { wanted, notBeforeMs, problem: { code: "rules-refused", servicePort, message } });
    },
    has(key, wanted) {
      const known = refused.get(key);
      if (known === undefined) return false;
      if (known.wanted !== wanted) refused.delete(key);
      return known.wanted === wanted;
    },
    forget(keys) {
      if (refused.size > 0) { for (const key of keys) refused.delete(key); }
    },
    takeAll(nowMs = Infinity) {
      const keys = [...refused].filter(([, { notBeforeMs = 0 }]) => notBeforeMs <= nowMs).map(([key]) => key);
      for (const key of keys) refused.delete(key);
      return keys;
    },
    keys: () => refused.keys(),
    problems: () => Array.from(refused.values(), ({ problem }) => problem),
    problemOf: (key) => refused.get(key)?.problem,
  };
}

/** Parameters of the search for refused items. */
interface RefusalSearch<Item, Culprit> {
  /** Writes items, all or nothing; returns the tool's message if that fails. */
  readonly attempt: (items: readonly Item[]) => Promise<string | undefined>;
  /** Derives the culprit from a failed attempt; undefined if the items must be bisected. */
  readonly culpritOf: (items: readonly Item[], failure: string) => Culprit | undefined;
  /** The number of bisections left; counts down. */
  readonly budget: { left: number };
}

/** A culprit, the tool's message, and the items that were not written because of it. */
interface FoundRefusal<Item, Culprit> {
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
