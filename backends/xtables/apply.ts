/** Runs the restores of one write, two at a time if they may overlap, and bisects refused restores. */
import type { ServicePortKey } from "../../core/model/mod.ts";
import type { Logger } from "../../platform/mod.ts";
import {
  type Accumulator,
  findRefused,
  type Outcome,
  type Refusals,
  type RunState,
  type Spellings,
} from "../reconcile/mod.ts";
import { isHostFailure } from "../tools/mod.ts";
import {
  type ChainsByTable,
  type Layout,
  type RenderedChain,
  type Table,
  TABLES,
  type WantedChains,
} from "./chains.ts";
import { EMPTY_CHAIN, hashRules, jumpsToMove, type RealizedState, UNKNOWN_CHAIN } from "./realized.ts";
import {
  type ChainUpdate,
  failedLines,
  type Flavour,
  type IptablesTools,
  lineOf,
  type Removal,
  removalInputs,
  type RestoreInput,
} from "./tools.ts";

/** The counts of a reconciliation that has done nothing. */
export const NO_COUNTS = {
  chains_written: 0,
  chains_deleted: 0,
  /** Rules of the last restore. */
  iptables_rules_last_filter: 0,
  iptables_rules_last_nat: 0,
  restores: 0,
  restore_failures: 0,
};

/** A chain that a restore writes or deletes, and the number of its rules before, 0 if that is unknown. */
export interface RestoredChain {
  readonly table: Table;
  readonly chain: string;
  readonly rules: number;
}

/** Runs a restore of these chains, which resolves with whether the kernel has taken it. */
export type AroundRestore = (chains: readonly RestoredChain[], restore: () => Promise<boolean>) => Promise<boolean>;

/** Everything that the restores of one reconciler read and update. */
export interface RestoreContext {
  readonly layout: Layout;
  readonly ruleset: WantedChains;
  readonly tools: IptablesTools;
  readonly flavour: Flavour;
  /** The spellings of chains, by the hashes of their rules. */
  readonly spellings: Spellings<number>;
  readonly logger: Logger;
  readonly refusals: Refusals<ServicePortKey>;
  readonly counts: Accumulator<typeof NO_COUNTS>;
  /** The chains that may differ from the kernel's; equal chains are removed from these sets. */
  readonly dirty: Readonly<Record<Table, Set<string>>>;
  touch(chains: ChainsByTable): void;
  /** Runs each restore; they just run by default. */
  readonly aroundRestore?: AroundRestore;
}

/** The restores of one write, with the realized state that they change. */
interface Restores extends RestoreContext {
  readonly realized: RealizedState;
  readonly run: RunState;
}

/** Thrown if a restore fails and no service is at fault. */
class RestoreError extends Error {
  override readonly name = "RestoreError";
}

/**
 * Writes the difference between the kernel and the desired chains. Two inputs of the same rank run at the same time: the tool reads one while the kernel
 * works on the other. If one is refused, the inputs that follow are obsolete. A service is only blamed if the kernel has
 * just been read: an input is also refused if a chain is missing that an earlier run was to write.
 */
export async function restoreAll(restores: Restores): Promise<Outcome> {
  // Their outcomes never reject.
  let running: { input: RestoreInput; outcome: Promise<{ failure?: string; error?: unknown }> }[] = [];
  const finishFirst = async (): Promise<Outcome> => {
    const [first, second] = running;
    const outcome = await first!.outcome;
    running = running.slice(1);
    if (outcome.failure === undefined && outcome.error === undefined) return "written";
    await second?.outcome;
    if (outcome.failure === undefined) throw outcome.error;
    if (!restores.run.isFresh) {
      restores.logger.warn("iptables-restore refused an input, comparing with the kernel", { error: outcome.failure });
      return "uncertain";
    }
    await leaveOut(restores, first!.input, outcome.failure);
    return "incomplete";
  };
  for (const input of restoreInputs(restores)) {
    const last = running.at(-1);
    const mayJoin = last !== undefined && input.rank !== undefined && input.rank === last.input.rank;
    while (running.length > (mayJoin ? 1 : 0)) {
      const outcome = await finishFirst();
      if (outcome !== "written") return outcome;
    }
    const outcome = restore(restores, input).then((failure) => ({ failure }), (error: unknown) => ({ error }));
    running = [...running, { input, outcome }];
  }
  while (running.length > 0) {
    const outcome = await finishFirst();
    if (outcome !== "written") return outcome;
  }
  return "written";
}

/** Runs one restore. Returns the tool's message if the kernel refuses the input; throws if the host is at fault. */
async function restore(restores: Restores, input: RestoreInput): Promise<string | undefined> {
  const { aroundRestore, realized: { chains } } = restores;
  if (!aroundRestore) return await restoreNow(restores, input);
  let failure: string | undefined;
  const written = input.updates.map(({ table, chain }) => (
    { table, chain, rules: chains[table].get(chain)?.rules ?? 0 }
  ));
  await aroundRestore(written, async () => {
    failure = await restoreNow(restores, input);
    return failure === undefined;
  });
  return failure;
}

async function restoreNow(restores: Restores, input: RestoreInput): Promise<string | undefined> {
  const { realized, counts, spellings, tools, layout, run } = restores;
  counts.value.restores++;
  // If the tool is killed or fails, parts of its input may be in effect.
  for (const update of input.updates) realized.chains[update.table].set(update.chain, UNKNOWN_CHAIN);
  const movesJumps = (input.jumps?.length ?? 0) > 0 || (input.surplusJumps?.length ?? 0) > 0;
  if (movesJumps) realized.jumps = undefined;
  const failure = await tools.restore(input);
  if (failure) {
    counts.value.restore_failures++;
    // A chain cannot be deleted while another chain refers to it, so the difference in the other chain was not just spelling.
    if (input.updates.some(({ action }) => action === "delete")) spellings.forget();
    // A chain that is missing in a kernel that has just been read: another program deletes chains, or a run wrote nothing.
    const isHost = isHostFailure(failure) || (failure.kind === "absent" && run.isFresh);
    if (isHost) throw new RestoreError(failure.text);
    return failure.text;
  }
  noteRestored(restores, input.updates);
  if (movesJumps) realized.jumps = new Map(layout.jumps.map((jump) => [jump, 1]));
  return undefined;
}

function noteRestored(
  { realized, counts: { value: counts }, dirty }: Restores,
  updates: readonly ChainUpdate[],
): void {
  counts.iptables_rules_last_filter = counts.iptables_rules_last_nat = 0;
  for (const update of updates) {
    const held = update.action === "write"
      ? { hash: update.hash, rules: update.rendered.rules.length }
      : update.action === "empty"
      ? EMPTY_CHAIN
      : undefined;
    realized.chains[update.table].set(update.chain, held);
    if (update.action === "write" && update.table !== "mangle") {
      counts[`iptables_rules_last_${update.table}` as const] += update.rendered.rules.length;
    }
    if (update.action === "delete") counts.chains_deleted++;
    else counts.chains_written++;
    if (update.action !== "empty") dirty[update.table].delete(update.chain);
  }
}

/** Excludes the service port that makes the kernel refuse an input, if there is one. */
async function leaveOut(restores: Restores, input: RestoreInput, failure: string): Promise<void> {
  const key = await findCulprit(restores, input, failure);
  if (key === undefined) return;
  const servicePort = restores.ruleset.servicePort(key)?.name;
  restores.refusals.add(key, {
    what: `rules of ${servicePort}`,
    effect: "left out",
    servicePort,
    failure: withFailedLines(input, failure),
  });
  restores.touch(restores.ruleset.exclude(key, true));
}

/** Searches a refused input for the service port at fault, and restores the accepted updates on the way. */
async function findCulprit(
  restores: Restores,
  input: RestoreInput,
  failure: string,
): Promise<ServicePortKey | undefined> {
  const attempt = (updates: readonly ChainUpdate[]) => attemptUpdates(restores, updates);
  const found = await findRefused(input.updates, failure, {
    attempt,
    culpritOf: (updates, message) => ownerOf(updates === input.updates ? input : { updates }, message),
    budget: restores.run.searchBudget,
  });
  if (found === undefined) throw new RestoreError(withFailedLines(input, failure));
  return found === "all written" ? undefined : found.culprit;
}

/**
 * Restores some updates of a refused input. A single update that is refused without a line number is tried twice: a tool
 * that fails for no reason must not cost a service its rules.
 */
async function attemptUpdates(restores: Restores, updates: readonly ChainUpdate[]): Promise<string | undefined> {
  const failure = await restore(restores, { updates });
  const isFinal = failure === undefined || updates.length > 1 || failedLines(failure).length > 0;
  return isFinal ? failure : await restore(restores, { updates });
}

/** The owner of the first line that the tool names, or else of the only chain if that is one service's. */
function ownerOf(input: RestoreInput, failure: string): ServicePortKey | undefined {
  for (const number of failedLines(failure)) {
    const owner = lineOf(input, number)?.owner;
    if (owner !== undefined) return owner;
  }
  const [update, ...others] = input.updates;
  return update?.action === "write" && others.length === 0 ? onlyOwner(update.rendered) : undefined;
}

/** The service port of all rules of a chain; undefined if there are several. */
function onlyOwner({ rules, ownerOf }: RenderedChain): ServicePortKey | undefined {
  const owner = ownerOf(0);
  return rules.every((_, rule) => ownerOf(rule) === owner) ? owner : undefined;
}

/** A failure with the text of the lines that it names. */
function withFailedLines(input: RestoreInput, failure: string): string {
  const lines = failedLines(failure).flatMap((number) => lineOf(input, number)?.text ?? []);
  return lines.length > 0 ? `${failure} (${lines.map((text) => `"${text}"`).join(", ")})` : failure;
}

/** Limits of one restore. `names` counts chains written or jumped to: iptables-nft searches a sorted list for each. */
const BATCH_LIMITS: Readonly<Record<Flavour, { readonly names: number; readonly rules: number }>> = {
  nf_tables: { names: 1000, rules: 25_000 },
  legacy: { names: Infinity, rules: Infinity },
};

/** The chains to write, in an order in which each refers only to earlier ones, and the chains to delete. */
function outline({ ruleset, realized, dirty }: Restores) {
  const writes: { table: Table; chain: string; rank: number }[] = [], removals: Removal[] = [];
  for (const table of TABLES) {
    for (const chain of dirty[table]) {
      if (ruleset.has(table, chain)) writes.push({ table, chain, rank: ruleset.rank(table, chain) });
      else {
        const held = realized.chains[table].get(chain);
        if (held) removals.push({ table, chain, held: held.lines });
        else dirty[table].delete(chain);
      }
    }
  }
  return { writes: writes.sort((a, b) => a.rank - b.rank), removals };
}

/**
 * Cuts the work into inputs and renders each one when it is requested, so that the whole text is never in memory. Deletions
 * come last: a few go into the last input with writes, many get their own inputs.
 */
function* restoreInputs(restores: Restores): Generator<RestoreInput> {
  const { ruleset, realized, dirty, layout, flavour } = restores;
  const limits = BATCH_LIMITS[flavour];
  const { writes, removals } = outline(restores);
  const { missing, surplus } = jumpsToMove(realized, layout);
  let updates: ChainUpdate[] = [], names = 0, rules = 0, firstRank = 0, lastRank = 0;
  for (const { table, chain, rank } of writes) {
    const rendered = ruleset.render(table, chain);
    if (!rendered) continue;
    const hash = hashRules(rendered.rules);
    const held = realized.chains[table].get(chain);
    if (held?.hash === hash) {
      dirty[table].delete(chain);
      continue;
    }
    names += 1 + rendered.jumps;
    rules += rendered.rules.length;
    if (updates.length > 0 && (names > limits.names || rules > limits.rules)) {
      yield firstRank === lastRank ? { updates, rank: firstRank } : { updates };
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
  if (updates.length > 0 || missing.length > 0 || surplus.length > 0) {
    yield { updates, jumps: missing, surplusJumps: surplus };
  }
  if (!few) yield* removalInputs(removals, limits.names);
}
