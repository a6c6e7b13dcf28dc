import type { FamilySettings, ServicePortKey } from "../../core/model/mod.ts";
import type { Contribution } from "./desired.ts";
import { baseChains } from "./frame.ts";
import type { Applied, RealizedState } from "./realized.ts";
import { declaredSets } from "./sets.ts";
import { sharedChainText, sharedItem } from "./shared_chains.ts";
import type { Dialect } from "./table.ts";
import {
  chainText,
  difference,
  type Item,
  itemId,
  type ItemList,
  parseItemId,
  type Transaction,
} from "./transaction.ts";

/** A change of one service port's part of the table. */
export interface Change {
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
export type Stage = "frame" | "ports" | "last" | "all";

/** A transaction, and its effect on the realized state. */
export interface BuiltTransaction {
  readonly transaction: Transaction;
  readonly changes: readonly Change[];
  /** Notes in the realized state that the transaction is in effect. */
  commit(): void;
}

/** A transaction that is being built. */
interface Draft {
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
}

/** Builds a transaction on the table that the realized state describes. */
export function buildTransaction(
  { realized, settings, dialect }: Pick<Draft, "realized" | "settings" | "dialect">,
  changes: readonly Change[],
  stage: Stage,
): BuiltTransaction {
  const draft: Draft = {
    changes,
    realized,
    settings,
    dialect,
    creates: stage === "frame" || stage === "all",
    finishes: stage === "last" || stage === "all",
    deleted: new Map(),
    added: new Map(),
    uses: new Map(),
    chains: [],
  };
  const { deleted, added } = draft;
  for (const [key, text] of draft.creates ? declaredSets(settings, dialect) : []) {
    if (stage !== "all" && !realized.missingSets.has(key)) continue;
    put(added, { list: "set", key, text });
  }
  const table = stage === "all" ? "replace" : added.has("set") ? "create" : "keep";
  const ownChains = addParts(draft);
  addFixedChains(draft);
  addNewSharedParts(draft);
  for (const chain of [...draft.chains, ...ownChains]) put(added, chain);
  const gone = draft.finishes ? addDeletions(draft) : [];
  return { transaction: { table, deleted, added }, changes, commit: () => commit(draft, gone) };
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

/** Adds the deletion of strays and of unused shared parts; returns the ids of these shared parts. */
function addDeletions(draft: Draft): readonly string[] {
  const { realized, settings, dialect, deleted } = draft;
  const gone = [...new Set([...realized.unused, ...draft.uses.keys()])].filter((id) => isUnused(draft, id));
  for (const id of gone) {
    const item = sharedItem(id, settings, dialect);
    put(deleted, item.list === "chain" ? { ...item, text: realized.chains.get(item.key)! } : item);
  }
  for (const item of realized.strays) put(deleted, item);
  return gone;
}

/** Whether the kernel has a shared part that no service port uses after the transaction. */
function isUnused({ realized, uses }: Draft, id: string): boolean {
  const used = realized.shared.get(id);
  return used !== undefined && used + (uses.get(id) ?? 0) === 0;
}

/** Notes in the realized state that a transaction is in effect. */
function commit(
  { realized, settings, changes, creates, finishes, chains, uses }: Draft,
  gone: readonly string[],
): void {
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
  if (finishes) realized.strays = [];
}
