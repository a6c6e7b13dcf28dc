import type { Jump } from "./layout.ts";
import { type Table, TABLES } from "./chain_names.ts";
import type { ChainUpdate, RestoreInput } from "./restore.ts";
import type { WantedChains } from "./wanted_chains.ts";
import type { KernelState } from "./shadow.ts";
import { hashRules } from "./text_hash.ts";
import type { Flavour } from "./tools.ts";

/**
 * Limits of one restore, see `Flavour`. Names are those of chains that are written or jumped to: iptables-nft searches a
 * sorted list for each of them, from its head.
 */
const BATCH_LIMITS: Readonly<Record<Flavour, { readonly names: number; readonly rules: number }>> = {
  nf_tables: { names: 1000, rules: 25_000 },
  legacy: { names: Infinity, rules: Infinity },
};

/** The work to cut into inputs. */
export interface RestoreWork {
  readonly ruleset: Pick<WantedChains, "render" | "has" | "rank">;
  readonly kernel: KernelState;
  /** The chains that may differ from the kernel's; those that do not are removed from these sets. */
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

/** The chains to write, in an order in which each refers only to earlier ones, and the chains to delete. */
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
 * Cuts the work into inputs and renders each one when it is requested, so that the whole text is never in memory. Deletions
 * come last: a few go into the last input with writes; many get inputs of their own, and all chains are emptied first, since
 * a chain can be deleted only when no other refers to it.
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
 * Sorts an input by name, in descending order, so that iptables-nft finds each chain at the head of its list. Inputs are not
 * sorted among each other: the kernel lists chains in the order of their creation, and iptables-save sorts them with a
 * quicksort that takes quadratic time on sorted input.
 */
function oneRank(updates: readonly ChainUpdate[], rank: number): RestoreInput {
  return { updates: updates.toSorted((a, b) => a.chain < b.chain ? 1 : -1), jumps: [], rank };
}
