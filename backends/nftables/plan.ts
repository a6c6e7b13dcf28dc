import type { FamilySettings, ServicePortKey } from "../../core/model/mod.ts";
import { baseChains } from "./base_chains.ts";
import type { Contribution } from "./contribution.ts";
import { parsePickChain, pickRules } from "./pick_chains.ts";
import { type Applied, chainId, chainText, type Shadow, sharedIds } from "./shadow.ts";
import { declareSets, type Dialect, type SetDeclaration, type SetName } from "./table.ts";
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
 * The task of a transaction beside its changes:
 * - `frame`: create what all service ports need, without hooks;
 * - `ports`: none;
 * - `last`: update the fixed chains, hooks included, and delete what is unwanted;
 * - `all`: replace the table.
 */
export type Stage = "frame" | "ports" | "last" | "all";

/** The input of a plan. */
export interface TransactionInput {
  readonly changes: readonly Change[];
  readonly shadow: Shadow;
  readonly settings: FamilySettings;
  readonly dialect: Dialect;
  readonly stage: Stage;
}

/** A transaction, and its effect on the shadow. */
export interface PlannedTransaction {
  readonly transaction: Transaction;
  readonly changes: readonly Change[];
  /** Whether the transaction changes nothing. */
  readonly isEmpty: boolean;
  /** Notes in the shadow that the transaction is in effect. */
  commit(): void;
}

/** Plans a transaction on the table that the shadow describes. */
export function planTransaction({ changes, shadow, settings, dialect, stage }: TransactionInput): PlannedTransaction {
  const deletedElements = new Map<SetName, string[]>(), newElements = new Map<SetName, string[]>();
  const newClientSets = new Map<string, SetDeclaration>();
  const chains: ChainWrite[] = [];
  const deletedChains: ChainDeletion[] = [], deletedSets: SetDeletion[] = [];
  const uses = new Map<string, number>();
  const texts = new Map<string, string>();

  const put = (into: Map<SetName, string[]>, set: SetName, text: string) => {
    const list = into.get(set);
    if (list) list.push(text);
    else into.set(set, [text]);
  };
  const use = (contribution: Contribution, by: number) => {
    for (const id of sharedIds(contribution)) uses.set(id, (uses.get(id) ?? 0) + by);
  };
  const write = (name: string, hook: string | undefined, rules: readonly string[]) => {
    const text = chainText(hook, rules), held = shadow.chains.get(name);
    if (held === text) return;
    chains.push({ name, hook, rules, held });
    texts.set(name, text);
  };
  const ownChains: ChainWrite[] = [];

  for (const { key, before, after } of changes) {
    const { deleted, added, ...own } = difference(before, after);
    for (const { set, key } of deleted) put(deletedElements, set, key);
    for (const { set, key, value } of added) put(newElements, set, value === "" ? key : `${key} : ${value}`);
    for (const { name, lines } of own.newClientSets) newClientSets.set(name, { kind: "set", lines });
    ownChains.push(...own.writtenChains);
    deletedChains.push(...own.deletedChains);
    for (const name of own.deletedClientSets) deletedSets.push({ name, kind: "set" });
    if (shadow.applied.has(key)) use(before, -1);
    use(after, 1);
  }

  const makes = stage === "frame" || stage === "all";
  const finishes = stage === "last" || stage === "all";
  for (const { name, hook, rules } of baseChains(settings, dialect)) {
    if (finishes || (makes && hook === undefined)) write(name, hook, rules);
  }
  if (finishes) {
    for (const name of shadow.chains.keys()) {
      const chain = parsePickChain(name);
      if (chain && !isUnused(chainId(name))) write(name, undefined, pickRules(chain, settings, dialect));
    }
  }
  for (const id of uses.keys()) {
    if (shadow.shared.has(id) || uses.get(id)! <= 0) continue;
    const { set, key } = parseSharedId(id);
    if (set !== "chain") put(newElements, set, key);
    else write(key, undefined, pickRules(parsePickChain(key)!, settings, dialect));
  }
  chains.push(...ownChains);

  const gone = finishes ? [...new Set([...shadow.unused, ...uses.keys()])].filter(isUnused) : [];
  for (const id of gone) {
    const { set, key } = parseSharedId(id);
    if (set === "chain") deletedChains.push({ name: key, held: shadow.chains.get(key) ?? "" });
    else put(deletedElements, set, key);
  }
  if (finishes) {
    for (const { set, key } of shadow.strays.elements) put(deletedElements, set, key);
    deletedChains.push(...shadow.strays.chains);
    deletedSets.push(...shadow.strays.sets);
  }

  /** Whether the kernel has something shared that no service port wants after this. */
  function isUnused(id: string): boolean {
    const part = shadow.shared.get(id);
    return part !== undefined && part.uses + (uses.get(id) ?? 0) === 0;
  }

  const declared = declareSets(dialect);
  const newSets = new Map<string, SetDeclaration>(
    [...declared].filter(([name]) => makes && (stage === "all" || shadow.missingSets.has(name))),
  );
  const table = stage === "all" ? "replace" : newSets.size > 0 ? "create" : "keep";
  for (const [name, declaration] of newClientSets) newSets.set(name, declaration);
  const transaction: Transaction = {
    table,
    newSets,
    chains,
    deletedElements,
    newElements,
    deletedChains,
    deletedSets,
  };
  return {
    transaction,
    changes,
    isEmpty: newSets.size + chains.length + deletedElements.size + newElements.size +
        deletedChains.length + deletedSets.length === 0,
    commit() {
      if (makes) {
        shadow.sets = "complete";
        shadow.missingSets = new Set();
      }
      for (const [name, text] of texts) shadow.chains.set(name, text);
      for (const [id, by] of uses) {
        const part = shadow.shared.get(id) ?? { uses: 0 };
        part.uses += by;
        if (part.uses === 0) shadow.unused.add(id);
        else shadow.unused.delete(id);
        shadow.shared.set(id, part);
      }
      for (const id of gone) {
        shadow.shared.delete(id);
        shadow.unused.delete(id);
        const { set, key } = parseSharedId(id);
        if (set === "chain") shadow.chains.delete(key);
      }
      for (const { key, next } of changes) {
        shadow.partial.delete(key);
        if (next) shadow.applied.set(key, next);
        else shadow.applied.delete(key);
      }
      if (finishes) shadow.strays = { elements: [], chains: [], sets: [] };
    },
  };
}

function parseSharedId(id: string): { readonly set: SetName | "chain"; readonly key: string } {
  const space = id.indexOf(" ");
  return { set: id.slice(0, space) as SetName | "chain", key: id.slice(space + 1) };
}
