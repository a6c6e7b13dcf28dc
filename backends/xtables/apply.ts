/** Runs the restores of one write, two at a time if they may overlap, and bisects those that the kernel refuses. */
import type { ServicePortKey } from "../../core/model/mod.ts";
import { type Accumulator, findRefused, type Refusals, type Round } from "../reconcile/mod.ts";
import { isHostFailure } from "../tools/mod.ts";
import type { Table } from "./chain_names.ts";
import type { Layout } from "./layout.ts";
import { type ChainUpdate, failedLines, lineOf, type RestoreInput } from "./restore.ts";
import { EMPTY_CHAIN, type HeldChain, type KernelState, UNKNOWN_CHAIN } from "./shadow.ts";
import type { Spellings } from "./spellings.ts";
import type { IptablesTools } from "./tools.ts";
import type { ChainsByTable, WantedChains } from "./wanted_chains.ts";

/** Figures of one reconciliation, for metrics (see SyncResult). */
export interface ReconcileFigures {
  chainsWritten: number;
  chainsDeleted: number;
  /** Rules of the last restore. */
  rulesLast: Record<Table, number>;
  restores: number;
  restoreFailures: number;
}

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
  readonly spellings: Spellings;
  readonly refusals: Refusals<ServicePortKey>;
  readonly figures: Accumulator<ReconcileFigures>;
  /** The chains that may differ from the kernel's. */
  readonly dirty: Readonly<Record<Table, Set<string>>>;
  touch(chains: ChainsByTable): void;
  /** Runs each restore; they just run by default. */
  readonly aroundRestore?: AroundRestore;
}

/** The restores of one write, with the kernel that they change. */
export interface Restores extends RestoreContext {
  readonly kernel: KernelState;
  readonly searchBudget: Round["searchBudget"];
}

/** Thrown if a restore fails and no service is at fault. */
class RestoreError extends Error {
  override readonly name = "RestoreError";
}

/** A running restore; its outcome never rejects. */
interface StartedRestore {
  readonly input: RestoreInput;
  readonly outcome: Promise<{ readonly failure?: string; readonly error?: unknown }>;
}

/**
 * Restores inputs in their order. Two inputs of the same rank run at the same time: the tool reads one while the kernel
 * works on the other.
 * @returns false if a service was left out; the inputs that follow are obsolete then
 */
export async function restoreAll(restores: Restores, inputs: Iterable<RestoreInput>): Promise<boolean> {
  let running: StartedRestore[] = [];
  const finishFirst = async (): Promise<boolean> => {
    const [first, second] = running;
    const outcome = await first!.outcome;
    running = running.slice(1);
    if (outcome.failure === undefined && outcome.error === undefined) return true;
    await second?.outcome;
    if (outcome.failure === undefined) throw outcome.error;
    await leaveOut(restores, first!.input, outcome.failure);
    return false;
  };
  for (const input of inputs) {
    const last = running.at(-1);
    const mayJoin = last !== undefined && input.rank !== undefined && input.rank === last.input.rank;
    while (running.length > (mayJoin ? 1 : 0)) if (!await finishFirst()) return false;
    const outcome = restore(restores, input).then((failure) => ({ failure }), (error: unknown) => ({ error }));
    running = [...running, { input, outcome }];
  }
  while (running.length > 0) if (!await finishFirst()) return false;
  return true;
}

/** Runs one restore. Returns the tool's message if the kernel refuses the input; throws if the host is at fault. */
async function restore(restores: Restores, input: RestoreInput): Promise<string | undefined> {
  const { aroundRestore, kernel: { chains } } = restores;
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
  const { kernel, figures, spellings, tools, layout } = restores;
  figures.value.restores++;
  // If the tool is killed or fails, parts of its input may be in effect.
  for (const update of input.updates) kernel.chains[update.table].set(update.chain, UNKNOWN_CHAIN);
  const movesJumps = input.jumps.length > 0 || (input.surplusJumps?.length ?? 0) > 0;
  if (movesJumps) kernel.jumps = undefined;
  const failure = await tools.restore(input);
  if (failure) {
    figures.value.restoreFailures++;
    // A chain cannot be deleted if another one refers to it, so the different text of that one was not just a spelling.
    if (input.updates.some(({ action }) => action === "delete")) spellings.forget();
    if (isHostFailure(failure)) throw new RestoreError(failure.text);
    return failure.text;
  }
  noteRestored(restores, input.updates);
  if (movesJumps) kernel.jumps = new Map(layout.jumps.map((jump) => [jump, 1]));
  return undefined;
}

function noteRestored({ kernel, figures: { value: figures }, dirty }: Restores, updates: readonly ChainUpdate[]): void {
  figures.rulesLast = { filter: 0, nat: 0 };
  for (const update of updates) {
    kernel.chains[update.table].set(update.chain, heldAfter(update));
    if (update.action === "write") figures.rulesLast[update.table] += update.rendered.rules.length;
    if (update.action === "delete") figures.chainsDeleted++;
    else figures.chainsWritten++;
    if (update.action !== "empty") dirty[update.table].delete(update.chain);
  }
}

function heldAfter(update: ChainUpdate): HeldChain | undefined {
  switch (update.action) {
    case "write":
      return { hash: update.hash, rules: update.rendered.rules.length };
    case "empty":
      return EMPTY_CHAIN;
    case "delete":
      return undefined;
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
  if (input.updates.length === 1 && failedLines(failure).length === 0) {
    if (await attempt(input.updates) === undefined) return undefined;
  }
  const found = await findRefused(input.updates, failure, {
    attempt,
    culpritOf: (updates, message) => ownerOf(updates === input.updates ? input : { updates, jumps: [] }, message),
    budget: restores.searchBudget,
  });
  if (found === undefined) throw new RestoreError(withFailedLines(input, failure));
  return found === "all written" ? undefined : found.culprit;
}

/**
 * Restores some updates of a refused input. A single update that is refused without a line number is tried twice: a tool
 * that fails for no reason must not cost a service its rules.
 */
async function attemptUpdates(restores: Restores, updates: readonly ChainUpdate[]): Promise<string | undefined> {
  const failure = await restore(restores, { updates, jumps: [] });
  const isFinal = failure === undefined || updates.length > 1 || failedLines(failure).length > 0;
  return isFinal ? failure : await restore(restores, { updates, jumps: [] });
}

/** The owner of the first line that the tool names, or else of the only chain. */
function ownerOf(input: RestoreInput, failure: string): ServicePortKey | undefined {
  for (const number of failedLines(failure)) {
    const owner = lineOf(input, number)?.owner;
    if (owner !== undefined) return owner;
  }
  const [update, ...others] = input.updates;
  return update?.action === "write" && others.length === 0 ? update.rendered.ownerOf(0) : undefined;
}

/** A failure with the text of the lines that it names. */
function withFailedLines(input: RestoreInput, failure: string): string {
  const lines = failedLines(failure).flatMap((number) => lineOf(input, number)?.text ?? []);
  return lines.length > 0 ? `${failure} (${lines.map((text) => `"${text}"`).join(", ")})` : failure;
}
