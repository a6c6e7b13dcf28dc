import type { Jump } from "./layout.ts";
import { type Table, TABLES } from "./chain_names.ts";
import type { ChainUpdate, RestoreInput } from "./restore.ts";
import type { WantedChains } from "./wanted_chains.ts";
import type { KernelState } from "./shadow.ts";
import { hashRules } from "./text_hash.ts";
import type { Flavour } from "./tools.ts";

/**
 * How much goes into one restore: see `Flavour`. Names are those of chains written and jumped to: iptables-nft looks
 * for the name in a sorted list, from its head, at each one.
 */
const BATCH_LIMITS: Readonly<Record<Flavour, { readonly names: number; readonly rules: number }>> = {
  nf_tables: { names: 1000, rules: 25_000 },
  legacy: { names: Infinity, rules: Infinity },
};

/** What is to be done, and to what. */
export interface RestoreWork {
  readonly ruleset: Pick<WantedChains, "render" | "has" | "rank">;
  readonly kernel: KernelState;
  /** The chains that may differ from what the kernel holds; those that turn out not to are taken out. */
  readonly dirty: Readonly<Record<Table, Set<string>>>;
  readonly missingJumps: readonly Jump[];
  readonly surplusJumps: readonly Jump[];
  readonly flavour: Flavour;
}

/** A chain to remove. */
type Removal = Pick<ChainUpdate, "table" | "chain" | "held">;

/** A chain to write. */
interface RankedChain {
  readonly table: Table;
  readonly chain: string;
  readonly rank: number;
}

/** What is to be written, in an order in which each chain refers to earlier ones only; and what is to go. */
function outline({ ruleset, kernel, dirty }: RestoreWork): { writes: RankedChain[]; removals: Removal[] } {
  const writes: RankedChain[] = [], removals: Removal[] = [];
  for (const table of TABLES) {
    for (const chain of dirty[table]) {
      if (ruleset.has(table, chain)) writes.push({ table, chain, rank: ruleset.rank(table, chain) });
      else {
        const held = kernel.chains[table].get(chain);
        if (held) removals.push({ table, chain, held: held.lines });
        else dirty[table].delete(chain);
      }
    }
  }
  return { writes: writes.sort((a, b) => a.rank - b.rank), removals };
}

/**
 * Cuts the work into inputs, rendering each only when it is its turn, so that the whole text is never in memory.
 * What is to go goes last: with the last writes where it is little, else emptied first, in as many inputs as it
 * takes, since a chain can be removed only when no other refers to it.
 */
export function* restoreInputs(work: RestoreWork): Generator<RestoreInput> {
  const { ruleset, kernel, dirty, missingJumps, surplusJumps } = work;
  const limits = BATCH_LIMITS[work.flavour];
  const { writes, removals } = outline(work);
  let updates: ChainUpdate[] = [], names = 0, rules = 0, firstRank = 0, lastRank = 0;
  for (const { table, chain, rank } of writes) {
    const rendered = ruleset.render(table, chain);
    if (!rendered) continue;
    const hash = hashRules(rendered.rules);
    const held = kernel.chains[table].get(chain);
    if (held?.hash === hash) {
      dirty[table].delete(chain);
      continue;
    }
    names += 1 + rendered.jumps;
    rules += rendered.rules.length;
    if (updates.length > 0 && (names > limits.names || rules > limits.rules)) {
      yield firstRank === lastRank ? oneRank(updates, firstRank) : { updates, jumps: [] };
      updates = [];
      names = 1 + rendered.jumps;
      rules = rendered.rules.length;
    }
    if (updates.length === 0) firstRank = rank;
    lastRank = rank;
    updates.push({ table, chain, action: "write", rendered, hash, held: held?.lines });
  }
  const few = names + removals.length <= limits.names;
  if (few) { for (const chain of removals) updates.push({ ...chain, action: "delete" }); }
  if (updates.length > 0 || missingJumps.length > 0 || surplusJumps.length > 0) {
    yield { updates, jumps: missingJumps, surplusJumps };
  }
  if (few) return;
  for (const action of ["empty", "delete"] as const) {
    for (let i = 0; i < removals.length; i += limits.names) {
      yield { updates: removals.slice(i, i + limits.names).map((chain) => ({ ...chain, action })), jumps: [] };
    }
  }
}

/**
 * Backwards by name, so that iptables-nft finds each one at the head of the list that it keeps of them. Not so beyond
 * one input: the order in which chains come to be is the one in which the kernel lists them, and iptables-save sorts
 * them by a quicksort whose time grows with the square of what is in order.
 */
function oneRank(updates: readonly ChainUpdate[], rank: number): RestoreInput {
  return { updates: updates.toSorted((a, b) => a.chain < b.chain ? 1 : -1), jumps: [], rank };
}
