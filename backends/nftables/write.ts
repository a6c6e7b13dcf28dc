/**
 * One write: the changes in batches, a transaction for each, its effect on the realized state, and the search for changes that the
 * kernel refuses or nft does not end in time.
 */
import type { FamilySettings, ServicePortKey } from "../../core/model/mod.ts";
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import { type Accumulator, findRefused, type Outcome, type Refusals, type RunState } from "../reconcile/mod.ts";
import { isHostFailure, isOutcomeUnknown, ToolTimeoutError } from "../tools/mod.ts";
import {
  changedSlots,
  type Contribution,
  contributionOf,
  type Desired,
  mayBelongTo,
  NOTHING,
  sharedChainText,
  sharedItem,
} from "./desired.ts";
import type { EarlierClients } from "./other_proxies.ts";
import { baseChains, LAST_BASE_CHAIN } from "./frame.ts";
import { mayTakeLong, type Overdue } from "./overdue.ts";
import type { Applied, RealizedState } from "./realized.ts";
import { declaredSets } from "./sets.ts";
import type { Dialect } from "./table.ts";
import type { NftTools } from "./tools.ts";
import {
  chainText,
  countElements,
  difference,
  type Item,
  itemId,
  type ItemList,
  parseItemId,
  type Transaction,
} from "./transaction.ts";

/** The counts of a reconciliation that has done nothing. */
export const NO_COUNTS = {
  elements_written: 0,
  elements_deleted: 0,
  chains_written: 0,
  nftables_transactions: 0,
  nftables_sync_failures: 0,
};

/** Everything that the transactions of one reconciler read and update. */
export interface TransactionContext {
  readonly desired: Desired;
  readonly tools: NftTools;
  readonly dialect: Dialect;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly overdue: Overdue;
  readonly earlierClients: EarlierClients;
  readonly refusals: Refusals<ServicePortKey>;
  readonly counts: Accumulator<typeof NO_COUNTS>;
  /** The service ports whose parts of the table may differ from the kernel's. */
  readonly dirty: Set<ServicePortKey>;
  /** Called when it is unknown whether a transaction is in effect. */
  invalidate(): void;
}

/** The transactions of one write, with the table that they change. */
interface Transactions extends TransactionContext {
  readonly realized: RealizedState;
  readonly settings: FamilySettings;
  readonly run: RunState;
}

/** Thrown if a transaction fails and no service port is at fault. */
class TransactionError extends Error {
  override readonly name = "TransactionError";
}

/** Thrown if nft does not end a transaction with these changes in time. */
class OverdueError extends Error {
  override readonly name = "OverdueError";
  constructor(readonly changes: readonly Change[], readonly reason: ToolTimeoutError) {
    super(reason.message);
  }
}

/** A service port whose transaction alone exceeds nft's time limit is tried again after this many limits: each try delays all others. */
const OVERDUE_RETRY_LIMITS = 10;

/** Above this number of dirty service ports there are several transactions, each built while nft works on another. */
const MANY = 5_000;

/** Writes the parts of all dirty service ports. */
export async function writeDirty(transactions: Transactions): Promise<Outcome> {
  if (needsStrays(transactions)) {
    transactions.invalidate();
    return "uncertain";
  }
  try {
    const outcome = await writeInTime(transactions);
    return outcome === "written" ? await writeOverdue(transactions) : outcome;
  } catch (error) {
    if (!(error instanceof OverdueError)) throw error;
    const { changes: [first, ...others], reason, message } = error, { overdue, run, clock } = transactions;
    overdue.add(error.changes);
    if (!run.isFresh) return uncertain(transactions, message);
    if (others.length > 0 || !await isNftInTime(transactions)) throw reason;
    refuse(transactions, first!, message, clock.monotonic() + OVERDUE_RETRY_LIMITS * reason.timeoutMs);
    return uncertain(transactions, message);
  }
}

/**
 * Whether a dirty service port needs a stray of an earlier listing, as one whose refused change is undone. The listing of a fresh run
 * has assigned those to their service ports.
 */
function needsStrays({ realized, dirty, desired, settings, dialect, run }: Transactions): boolean {
  if (run.isFresh || realized.strays.length === 0) return false;
  const strays = new Set(realized.strays.map(itemId));
  return dirty.values().some((key) => {
    const port = desired.servicePort(key);
    return port !== undefined && contributionOf(port, settings, dialect).own.some((item) => strays.has(itemId(item)));
  });
}

/** Whether nft ends a transaction that changes nothing. */
async function isNftInTime({ tools }: Transactions): Promise<boolean> {
  try {
    return await tools.transact({ table: "create", deleted: new Map(), added: new Map() }) === undefined;
  } catch (error) {
    if (error instanceof ToolTimeoutError) return false;
    throw error;
  }
}

/** Writes the parts of the dirty service ports whose transactions have been in time so far. */
async function writeInTime(transactions: Transactions): Promise<Outcome> {
  const { realized, dirty, run } = transactions;
  const replaces = realized.isDifferent;
  const isFirst = !replaces && !realized.chains.has(LAST_BASE_CHAIN);
  if (isFirst || realized.missingSets.size > 0) {
    if (await transactWhole(transactions, "frame") === "uncertain") return "uncertain";
  }
  // Either no packet reaches the table yet, or there are many changes, as after the first batch of a snapshot.
  const manyAreNew = isFirst || dirty.size > MANY;
  const all = changeBatches(transactions);
  for (let next = all.next(); !next.done;) {
    const changes = next.value;
    if (!replaces) await keepClients(transactions, changes);
    let written: Promise<string | undefined>;
    if (!replaces && manyAreNew) {
      // The next batch is built while nft, which has read all of this one, is busy with it.
      const taken = Promise.withResolvers<void>();
      written = transact(transactions, build(transactions, changes, "ports"), taken.resolve);
      await Promise.race([taken.promise, written]);
      next = all.next();
    } else {
      next = all.next();
      written = transact(transactions, build(transactions, changes, replaces ? "all" : next.done ? "last" : "ports"));
    }
    const failure = await written;
    if (failure === undefined) continue;
    if (!run.isFresh) return uncertain(transactions, failure);
    if (replaces) await transactWhole(transactions, "all");
    await isolate(transactions, changes, failure);
  }
  return await transactWhole(transactions, "last");
}

/** Writes the parts of the other dirty service ports. */
async function writeOverdue(transactions: Transactions): Promise<Outcome> {
  const { overdue, dirty, run } = transactions;
  for (const group of overdue.groups()) {
    const changes = Array.from(dirty.intersection(group), (key) => changeOf(key, transactions));
    if (changes.length === 0) continue;
    const failure = await transact(transactions, build(transactions, changes, "last"));
    if (failure === undefined) overdue.remove(group);
    else if (!run.isFresh) return uncertain(transactions, failure);
    else await isolate(transactions, changes, failure);
  }
  return "written";
}

/** Adds the clients that kube-proxy remembers, before rules look for them. */
async function keepClients(
  { earlierClients, realized, tools, logger }: Transactions,
  changes: readonly Change[],
): Promise<void> {
  const ports = changes.flatMap(({ key, next }) => {
    const had = realized.applied.get(key)?.port.affinitySeconds ?? 0;
    return next !== undefined && next.port.affinitySeconds > 0 && had === 0 ? [next.port] : [];
  });
  try {
    const clients = await earlierClients(ports);
    if (clients.length === 0) return;
    const added = new Map([["clients", clients] as const]);
    const failure = await tools.transact({ table: "keep", deleted: new Map(), added });
    if (failure) throw new Error(failure.text);
  } catch (error) {
    logger.warn("the clients of services with session affinity may get other endpoints: cannot keep them", {
      error: errorText(error),
    });
  }
}

function uncertain({ logger }: Transactions, failure: string): Outcome {
  logger.warn("nft failed with a transaction, comparing with the kernel and searching for the cause", {
    error: failure,
  });
  return "uncertain";
}

/** Applies a transaction without changes of service ports. */
async function transactWhole(transactions: Transactions, stage: Stage): Promise<Outcome> {
  const failure = await transact(transactions, build(transactions, [], stage));
  if (failure === undefined) return "written";
  if (!transactions.run.isFresh) return uncertain(transactions, failure);
  throw new TransactionError(failure);
}

/**
 * Applies a transaction. Returns the tool's message if the kernel refuses it; throws if the host is at fault, or if it takes too
 * long.
 */
async function transact(
  { tools, dirty, realized, counts: { value: counts }, invalidate }: Transactions,
  draft: Draft,
  onInputTaken?: () => void,
): Promise<string | undefined> {
  const { added, deleted, changes } = draft;
  if (added.size + deleted.size > 0) {
    counts.nftables_transactions++;
    // If the tool is killed, its input may be in effect or not.
    const failure = await tools.transact(draft, onInputTaken).catch((error) => {
      invalidate();
      if (!(error instanceof ToolTimeoutError) || realized.isDifferent || !mayTakeLong(changes)) throw error;
      throw new OverdueError(changes, error);
    });
    if (failure) {
      counts.nftables_sync_failures++;
      if (isOutcomeUnknown(failure)) invalidate();
      if (isHostFailure(failure)) throw new TransactionError(failure.text);
      return failure.text;
    }
  }
  commit(draft);
  for (const { key } of changes) dirty.delete(key);
  counts.elements_written += countElements(added);
  counts.elements_deleted += countElements(deleted);
  counts.chains_written += added.get("chain")?.length ?? 0;
  return undefined;
}

/** Adds the changes that the kernel refuses to the refusals, and writes the rest. */
async function isolate(transactions: Transactions, changes: readonly Change[], failure: string): Promise<void> {
  const attempt = (some: readonly Change[]) => transact(transactions, build(transactions, some, "ports"));
  const culpritOf = (some: readonly Change[]) => some.length === 1 ? some[0] : undefined;
  const budget = transactions.run.searchBudget;
  for (let rest = changes, message: string | undefined = failure; message !== undefined;) {
    const found = await findRefused(rest, message, { attempt, culpritOf, budget });
    if (found === "all written") return;
    if (found === undefined) throw new TransactionError(message);
    refuse(transactions, found.culprit, found.failure);
    rest = found.untried;
    if (rest.length === 0) return;
    message = await attempt(rest);
  }
}

function refuse(
  { refusals, dirty }: Transactions,
  { key, next }: Change,
  failure: string,
  notBeforeMs?: number,
): void {
  const servicePort = next?.port.name, what = `rules of ${servicePort ?? key}`;
  refusals.add(key, { what, effect: "unchanged", servicePort, failure, notBeforeMs });
  dirty.delete(key);
}

/**
 * The number of elements per transaction. 250,000 elements take 3.5 s in transactions of this size and hardly less in
 * larger ones; smaller ones need less memory and block other changes for less time.
 */
const ELEMENTS_PER_TRANSACTION = 10_000;

/** Cuts the changes into batches, each rendered when it is requested; deleted service ports come last. */
function* changeBatches(transactions: Transactions): Generator<Change[]> {
  const { desired, dirty, realized, overdue } = transactions;
  const limit = realized.isDifferent ? Infinity : ELEMENTS_PER_TRANSACTION;
  const counted = new Set<string>();
  let batch: Change[] = [], elements = 0;
  for (const isDeleted of [false, true]) {
    for (const key of dirty) {
      if ((desired.servicePort(key) === undefined) !== isDeleted) continue;
      if (!realized.isDifferent && overdue.has(key)) continue;
      const change = changeOf(key, transactions);
      batch.push(change);
      elements += Math.max(change.before.own.length, change.after.own.length);
      for (const id of change.after.shared) {
        if (!realized.shared.has(id) && !counted.has(id)) elements++;
        counted.add(id);
      }
      if (elements < limit) continue;
      yield batch;
      batch = [];
      elements = 0;
    }
  }
  yield batch;
}

function changeOf(key: ServicePortKey, { desired, realized, settings, dialect }: Transactions): Change {
  const port = desired.servicePort(key);
  const next: Applied | undefined = port && { port, settings };
  const held = realized.applied.get(key);
  // What is the same in both contributions need not be rendered.
  const only = held && next && held.settings === settings ? changedSlots(held.port, next.port) : undefined;
  const contribution = (applied: Applied) => contributionOf(applied.port, applied.settings, dialect, only);
  return {
    key,
    before: held ? contribution(held) : { ...NOTHING, own: realized.partial.get(key) ?? [] },
    after: next ? contribution(next) : NOTHING,
    next,
  };
}

/** A change of one service port's part of the table. */
interface Change {
  readonly key: ServicePortKey;
  /** The part in the kernel. */
  readonly before: Contribution;
  readonly after: Contribution;
  /** The state after the change; undefined for a deleted service port. */
  readonly next: Applied | undefined;
}

/**
 * The task of a transaction besides its changes:
 * - `frame`: create what all service ports need, without hooks;
 * - `ports`: none;
 * - `last`: update the fixed chains, hooks included, and delete unwanted parts;
 * - `all`: replace the table.
 */
type Stage = "frame" | "ports" | "last" | "all";

/** A transaction that is built from changes, and its effect on the realized state. */
interface Draft extends Transaction {
  readonly changes: readonly Change[];
  readonly realized: RealizedState;
  readonly settings: FamilySettings;
  readonly dialect: Dialect;
  /** Whether the transaction creates the frame of the table. */
  readonly creates: boolean;
  /** Whether the transaction updates all fixed chains and deletes unwanted parts. */
  readonly finishes: boolean;
  readonly deleted: Map<ItemList, Item[]>;
  readonly added: Map<ItemList, Item[]>;
  /** The change in the number of uses of each shared part. */
  readonly uses: Map<string, number>;
  /** The fixed and shared chains that are written. */
  readonly chains: Item[];
  /** The ids of the shared parts that are deleted. */
  readonly gone: string[];
  /** The strays that may be of an earlier version of a service port that is not written: all of that stays. */
  readonly kept: ReadonlySet<Item>;
  /** Whether such a version may use shared parts. */
  readonly keepsShared: boolean;
}

/** Builds a transaction on the table that the realized state describes. */
function build(transactions: Transactions, changes: readonly Change[], stage: Stage): Draft {
  const { realized, settings, dialect } = transactions;
  const creates = stage === "frame" || stage === "all", finishes = stage === "last" || stage === "all";
  const missing = [...creates ? declaredSets(settings, dialect) : []]
    .filter(([key]) => stage === "all" || realized.missingSets.has(key))
    .map(([key, text]): Item => ({ list: "set", key, text }));
  const draft: Draft = {
    changes,
    realized,
    settings,
    dialect,
    creates,
    finishes,
    table: stage === "all" ? "replace" : missing.length > 0 ? "create" : "keep",
    deleted: new Map(),
    added: new Map(),
    uses: new Map(),
    chains: [],
    gone: [],
    ...finishes ? keptAfter(changes, transactions) : NOTHING_KEPT,
  };
  for (const set of missing) put(draft.added, set);
  const ownChains = addParts(draft);
  addFixedChains(draft);
  addNewSharedParts(draft);
  for (const chain of [...draft.chains, ...ownChains]) put(draft.added, chain);
  if (finishes) addDeletions(draft);
  return draft;
}

const NOTHING_KEPT: Pick<Draft, "kept" | "keepsShared"> = { kept: new Set(), keepsShared: false };

/** The parts of service ports that nft has refused, or not written in time, and that these changes leave as they are. */
function keptAfter(
  changes: readonly Change[],
  { dirty, refusals, desired, realized, dialect }: Transactions,
): Pick<Draft, "kept" | "keepsShared"> {
  const written = new Set(changes.map(({ key }) => key));
  const unwritten = [...dirty, ...refusals.keys()].filter((key) => !written.has(key) && !realized.applied.has(key));
  if (unwritten.length === 0) return NOTHING_KEPT;
  const ports = unwritten.map((key) => desired.servicePort(key)).filter((port) => port !== undefined);
  const kept = new Set(realized.strays.filter(mayBelongTo(ports, dialect)));
  return { kept, keepsShared: kept.size > 0 || unwritten.some((key) => realized.partial.has(key)) };
}

function put(into: Map<ItemList, Item[]>, item: Item): void {
  const list = into.get(item.list);
  if (list) list.push(item);
  else into.set(item.list, [item]);
}

/** Adds the parts of single service ports, except their chains, which it returns: the chains that these refer to come first. */
function addParts(draft: Draft): readonly Item[] {
  const { uses, realized } = draft;
  const ownChains: Item[] = [];
  const use = ({ shared }: Contribution, by: number) => {
    for (const id of shared) uses.set(id, (uses.get(id) ?? 0) + by);
  };
  for (const { key, before, after } of draft.changes) {
    const { deleted, added } = difference(before.own, after.own);
    for (const item of deleted) put(draft.deleted, item);
    for (const item of added) {
      if (item.list === "chain") ownChains.push(item);
      else put(draft.added, item);
    }
    if (realized.applied.has(key)) use(before, -1);
    use(after, 1);
  }
  return ownChains;
}

/** Adds the fixed chains, and updates of shared chains. */
function addFixedChains(draft: Draft): void {
  const { settings, dialect, realized, creates, finishes } = draft;
  if (realized.chainSettings === settings) return;
  for (const { name, hook, rules } of baseChains(settings, dialect)) {
    if (finishes || (creates && hook === undefined)) writeChain(draft, name, chainText(hook, rules));
  }
  if (!finishes) return;
  for (const name of realized.chains.keys()) {
    const text = sharedChainText(name, settings, dialect);
    if (text !== undefined && !isUnused(draft, itemId({ list: "chain", key: name }))) writeChain(draft, name, text);
  }
}

/** Writes a fixed or shared chain, unless the kernel holds it. */
function writeChain({ realized, chains, deleted }: Draft, key: string, text: string): void {
  const held = realized.chains.get(key);
  if (held === text) return;
  chains.push({ list: "chain", key, text });
  if (held !== undefined) put(deleted, { list: "chain", key, text: held });
}

/** Adds the shared chains, sets and elements that do not exist yet. */
function addNewSharedParts(draft: Draft): void {
  const { uses, realized, settings, dialect, added } = draft;
  for (const [id, by] of uses) {
    if (realized.shared.has(id) || by <= 0) continue;
    const item = sharedItem(id, settings, dialect);
    if (item.list === "chain") writeChain(draft, item.key, item.text);
    else put(added, item);
  }
}

/** Adds the deletion of strays and of unused shared parts. */
function addDeletions(draft: Draft): void {
  const { realized, settings, dialect, deleted, gone, kept, keepsShared } = draft;
  for (const id of keepsShared ? [] : realized.unused.union(draft.uses)) {
    if (!isUnused(draft, id)) continue;
    gone.push(id);
    const item = sharedItem(id, settings, dialect);
    put(deleted, item.list === "chain" ? { ...item, text: realized.chains.get(item.key)! } : item);
  }
  for (const item of realized.strays) if (!kept.has(item)) put(deleted, item);
}

/** Whether the kernel has a shared part that no service port uses after the transaction. */
function isUnused({ realized, uses }: Draft, id: string): boolean {
  const used = realized.shared.get(id);
  return used !== undefined && used + (uses.get(id) ?? 0) === 0;
}

/** Notes in the realized state that a transaction is in effect. */
function commit({ realized, settings, changes, creates, finishes, chains, uses, gone, kept }: Draft): void {
  if (creates) {
    realized.isDifferent = false;
    realized.missingSets = new Set();
  }
  if (finishes) realized.chainSettings = settings;
  for (const { key, text } of chains) realized.chains.set(key, text);
  for (const [id, by] of uses) {
    const all = (realized.shared.get(id) ?? 0) + by;
    if (all === 0) realized.unused.add(id);
    else realized.unused.delete(id);
    realized.shared.set(id, all);
  }
  for (const id of gone) {
    realized.shared.delete(id);
    realized.unused.delete(id);
    const { list, key } = parseItemId(id);
    if (list === "chain") realized.chains.delete(key);
  }
  for (const { key, next } of changes) {
    realized.partial.delete(key);
    if (next) realized.applied.set(key, next);
    else realized.applied.delete(key);
  }
  if (finishes) realized.strays = [...kept];
}
