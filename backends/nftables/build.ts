import type { FamilySettings, ServicePortKey } from "../../core/model/mod.ts";
import type { Contribution } from "./desired.ts";
import { allSets, baseChains } from "./frame.ts";
import { type Applied, chainId, chainText, type RealizedState, sharedIds } from "./realized.ts";
import { isSourceList, sharedRules, type SourceList, sourceSet } from "./shared_chains.ts";
import type { Dialect, SetDeclaration, SetName } from "./table.ts";
import { type ChainDeletion, type ChainWrite, difference, type SetDeletion, type Transaction } from "./transaction.ts";

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

/** The input of `buildTransaction`. */
interface TransactionInput {
  readonly changes: readonly Change[];
  readonly realized: RealizedState;
  readonly settings: FamilySettings;
  readonly dialect: Dialect;
  readonly stage: Stage;
}

/** A transaction, and its effect on the realized state. */
export interface BuiltTransaction {
  readonly transaction: Transaction;
  readonly changes: readonly Change[];
  /** Whether the transaction changes nothing. */
  readonly isEmpty: boolean;
  /** Notes in the realized state that the transaction is in effect. */
  commit(): void;
}

/** A transaction that is being built. */
interface Draft extends TransactionInput {
  /** Whether the transaction creates the frame of the table. */
  readonly creates: boolean;
  /** Whether the transaction updates all fixed chains and deletes unwanted parts. */
  readonly finishes: boolean;
  /** The sets of service ports and of lists of sources. */
  readonly newOwnSets: Map<string, SetDeclaration>;
  /** The lists of sources in use, by name. */
  readonly sourceLists: Map<string, SourceList>;
  readonly chains: ChainWrite[];
  readonly deletedElements: Map<SetName, string[]>;
  readonly newElements: Map<SetName, string[]>;
  readonly deletedChains: ChainDeletion[];
  readonly deletedSets: SetDeletion[];
  /** The change in the number of uses of each shared part. */
  readonly uses: Map<string, number>;
  /** The texts of the fixed and shared chains that are written. */
  readonly texts: Map<string, string>;
}

/** Builds a transaction on the table that the realized describes. */
export function buildTransaction(input: TransactionInput): BuiltTransaction {
  const { changes, realized, settings, dialect, stage } = input;
  const draft: Draft = {
    ...input,
    creates: stage === "frame" || stage === "all",
    finishes: stage === "last" || stage === "all",
    newOwnSets: new Map(),
    sourceLists: new Map(),
    chains: [],
    deletedElements: new Map(),
    newElements: new Map(),
    deletedChains: [],
    deletedSets: [],
    uses: new Map(),
    texts: new Map(),
  };
  const ownChains = addParts(draft);
  addFixedChains(draft);
  addNewSharedParts(draft);
  draft.chains.push(...ownChains);
  const gone = draft.finishes ? addDeletions(draft) : [];

  const newSets = new Map<string, SetDeclaration>(
    [...allSets(settings, dialect)].filter(([name]) =>
      draft.creates && (stage === "all" || realized.missingSets.has(name))
    ),
  );
  const table = stage === "all" ? "replace" : newSets.size > 0 ? "create" : "keep";
  for (const [name, declaration] of draft.newOwnSets) newSets.set(name, declaration);
  const { chains, deletedElements, newElements, deletedChains, deletedSets } = draft;
  return {
    transaction: { table, newSets, chains, deletedElements, newElements, deletedChains, deletedSets },
    changes,
    isEmpty: newSets.size + chains.length + deletedElements.size + newElements.size +
        deletedChains.length + deletedSets.length === 0,
    commit: () => commit(draft, gone),
  };
}

function put(into: Map<SetName, string[]>, set: SetName, text: string): void {
  const list = into.get(set);
  if (list) list.push(text);
  else into.set(set, [text]);
}

/** Adds the parts of single service ports, except their chains, which it returns: the chains that these refer to come first. */
function addParts(draft: Draft): readonly ChainWrite[] {
  const { uses, realized } = draft;
  const ownChains: ChainWrite[] = [];
  const use = (contribution: Contribution, by: number) => {
    for (const id of sharedIds(contribution)) uses.set(id, (uses.get(id) ?? 0) + by);
  };
  for (const { key, before, after } of draft.changes) {
    const { deleted, added, ...own } = difference(before, after);
    for (const { set, key } of deleted) put(draft.deletedElements, set, key);
    for (const { set, key, value } of added) put(draft.newElements, set, value === "" ? key : `${key} : ${value}`);
    for (const { name, lines } of own.newClientSets) draft.newOwnSets.set(name, { kind: "set", lines });
    ownChains.push(...own.writtenChains);
    draft.deletedChains.push(...own.deletedChains);
    for (const name of own.deletedClientSets) draft.deletedSets.push({ name, kind: "set" });
    if (realized.applied.has(key)) use(before, -1);
    use(after, 1);
    for (const list of after.sourceLists) draft.sourceLists.set(list.name, list);
  }
  return ownChains;
}

/** Adds the fixed chains, and updates of shared chains. */
function addFixedChains(draft: Draft): void {
  const { settings, dialect, realized, creates, finishes } = draft;
  for (const { name, hook, rules } of baseChains(settings, dialect)) {
    if (finishes || (creates && hook === undefined)) writeChain(draft, name, hook, rules);
  }
  if (!finishes) return;
  for (const name of realized.chains.keys()) {
    const rules = sharedRules(name, settings, dialect);
    if (rules && !isUnused(draft, chainId(name))) writeChain(draft, name, undefined, rules);
  }
}

/** Writes a fixed or shared chain, unless the kernel holds it. */
function writeChain(
  { realized, chains, texts }: Draft,
  name: string,
  hook: string | undefined,
  rules: readonly string[],
): void {
  const text = chainText(hook, rules), held = realized.chains.get(name);
  if (held === text) return;
  chains.push({ name, hook, rules, held });
  texts.set(name, text);
}

/** Adds the shared chains and elements that do not exist yet. */
function addNewSharedParts(draft: Draft): void {
  const { uses, realized, settings, dialect } = draft;
  for (const id of uses.keys()) {
    const part = realized.shared.get(id);
    if (part && !part.damage || uses.get(id)! <= 0) continue;
    const { set, key } = parseSharedId(id);
    if (set !== "chain") put(draft.newElements, set, key);
    else writeChain(draft, key, undefined, sharedRules(key, settings, dialect)!);
    const list = draft.sourceLists.get(key);
    if (list === undefined) continue;
    draft.newOwnSets.set(list.name, sourceSet(dialect));
    for (const element of part?.damage ?? []) put(draft.deletedElements, list.name, element);
    for (const element of list.elements) put(draft.newElements, list.name, element);
  }
}

/** Adds the deletion of strays and of unused shared parts; returns the keys of these shared parts. */
function addDeletions(draft: Draft): readonly string[] {
  const { realized, deletedElements, deletedChains, deletedSets } = draft;
  const gone = [...new Set([...realized.unused, ...draft.uses.keys()])].filter((id) => isUnused(draft, id));
  for (const id of gone) {
    const { set, key } = parseSharedId(id);
    if (set === "chain") deletedChains.push({ name: key, held: realized.chains.get(key) ?? "" });
    else put(deletedElements, set, key);
    if (isSourceList(key)) deletedSets.push({ name: key, kind: "set" });
  }
  for (const { set, key } of realized.strays.elements) put(deletedElements, set, key);
  deletedChains.push(...realized.strays.chains);
  deletedSets.push(...realized.strays.sets);
  return gone;
}

/** Whether the kernel has a shared part that no service port uses after the transaction. */
function isUnused({ realized, uses }: Draft, id: string): boolean {
  const part = realized.shared.get(id);
  return part !== undefined && part.uses + (uses.get(id) ?? 0) === 0;
}

/** Notes in the realized state that a transaction is in effect. */
function commit({ realized, changes, creates, finishes, texts, uses }: Draft, gone: readonly string[]): void {
  if (creates) {
    realized.sets = "complete";
    realized.missingSets = new Set();
  }
  for (const [name, text] of texts) realized.chains.set(name, text);
  for (const [id, by] of uses) {
    const part = realized.shared.get(id) ?? { uses: 0 };
    if (by > 0) delete part.damage;
    part.uses += by;
    if (part.uses === 0) realized.unused.add(id);
    else realized.unused.delete(id);
    realized.shared.set(id, part);
  }
  for (const id of gone) {
    realized.shared.delete(id);
    realized.unused.delete(id);
    const { set, key } = parseSharedId(id);
    if (set === "chain") realized.chains.delete(key);
  }
  for (const { key, next } of changes) {
    realized.partial.delete(key);
    if (next) realized.applied.set(key, next);
    else realized.applied.delete(key);
  }
  if (finishes) realized.strays = { elements: [], chains: [], sets: [] };
}

function parseSharedId(id: string): { readonly set: SetName | "chain"; readonly key: string } {
  const space = id.indexOf(" ");
  return { set: id.slice(0, space) as SetName | "chain", key: id.slice(space + 1) };
}
