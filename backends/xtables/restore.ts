import type { ServicePortKey } from "../../core/model/mod.ts";
import type { PlaceChange } from "../tools/mod.ts";
import { type Table, TABLES } from "./chain_names.ts";
import type { Jump } from "./layout.ts";
import type { RenderedChain } from "./wanted_chains.ts";

/** The update of one chain by a restore. */
export type ChainUpdate<T extends string = Table> =
  & {
    readonly table: T;
    readonly chain: string;
    /** The rules that the kernel holds; known only in a dry run, and for a chain that exists. */
    readonly held?: readonly string[];
  }
  & (
    /** Creates or empties the chain, and fills it with these rules. */
    | { readonly action: "write"; readonly rendered: RenderedChain; readonly hash: number }
    /** Empties the chain, so that it no longer refers to other chains. */
    | { readonly action: "empty" }
    /** Deletes the chain, to which no other may refer. */
    | { readonly action: "delete" }
  );

/** The input of one iptables-restore, as data. */
export interface RestoreInput<T extends string = Table> {
  readonly updates: readonly ChainUpdate<T>[];
  /** Inserted at the heads of their built-in chains, in this order. */
  readonly jumps: readonly Jump<T>[];
  /** Deleted: the first identical jump in the built-in chain. */
  readonly surplusJumps?: readonly Jump<T>[];
  /**
   * The common rank of its chains (see WantedChains), if it only writes chains of one rank: inputs of equal rank do not refer
   * to each other.
   */
  readonly rank?: number;
}

/** Prints an input for iptables-restore, one line at a time, newlines included. */
export function* restoreLines(input: RestoreInput<string>): Generator<string> {
  const all = [...input.updates, ...input.jumps, ...input.surplusJumps ?? []];
  for (const table of new Set<string>([...TABLES, ...all.map(({ table }) => table)])) {
    const updates = input.updates.filter((update) => update.table === table);
    const jumps = input.jumps.filter((jump) => jump.table === table);
    const surplus = input.surplusJumps?.filter((jump) => jump.table === table) ?? [];
    if (updates.length === 0 && jumps.length === 0 && surplus.length === 0) continue;
    yield `*${table}\n`;
    for (const update of updates) {
      yield `:${update.chain} - [0:0]\n`;
      if (update.action === "write") { for (const rule of update.rendered.rules) yield `-A ${update.chain} ${rule}\n`; }
    }
    for (const jump of surplus) yield `-D ${jump.from} ${jump.rule}\n`;
    for (const jump of jumps) yield `-I ${jump.from} ${jump.rule}\n`;
    for (const update of updates) if (update.action === "delete") yield `-X ${update.chain}\n`;
    yield "COMMIT\n";
  }
}

/** The chains that an input changes. */
export function* changedPlaces({ updates, jumps, surplusJumps = [] }: RestoreInput<string>): Generator<PlaceChange> {
  const builtIn = ({ table, from }: Jump<string>, removed: readonly string[], added: readonly string[]) =>
    ({ kind: "built-in chain", place: `${table} ${from}`, removed, added }) as const;
  for (const jump of surplusJumps) yield builtIn(jump, [jump.rule], []);
  for (const jump of jumps) yield builtIn(jump, [], [jump.rule]);
  for (const update of updates) {
    const { table, chain, held, action } = update;
    const wanted = action === "write" ? update.rendered.rules : action === "empty" ? [] : undefined;
    yield { kind: "chain", place: `${table} ${chain}`, held, wanted };
  }
}

/** A line of an input. */
export interface RestoreLine {
  readonly text: string;
  /** The service port that the line is for; undefined if it is not for a single one. */
  readonly owner: ServicePortKey | undefined;
}

/** The line of an input at a number, counted from 1 as iptables-restore does; undefined beyond its end. */
export function lineOf(input: RestoreInput, number: number): RestoreLine | undefined {
  let at = 0;
  for (const text of restoreLines(input)) {
    if (++at === number) return { text: text.trimEnd(), owner: ownerOfLine(input, text) };
  }
  return undefined;
}

/** The owner of a line, by its chain and the place of its rule in the chain. */
function ownerOfLine(input: RestoreInput, text: string): ServicePortKey | undefined {
  const append = /^-A (\S+) (.*)\n$/.exec(text);
  const chain = append?.[1] ?? /^(?::|-X )(\S+)/.exec(text)?.[1];
  for (const update of input.updates) {
    if (update.chain !== chain || update.action !== "write") continue;
    if (!append) return update.rendered.ownerOf(0);
    const rule = update.rendered.rules.indexOf(append[2]!);
    if (rule >= 0) return update.rendered.ownerOf(rule);
  }
  return undefined;
}

/**
 * The line numbers in a message of iptables-restore: `line 7: RULE_APPEND failed`, `Error occurred at line: 7`,
 * `iptables-restore: line 7 failed`.
 */
export function failedLines(stderr: string): number[] {
  const numbers = [...stderr.matchAll(/\bline:? (\d+)/g)].map((match) => Number(match[1]));
  return [...new Set(numbers)];
}
