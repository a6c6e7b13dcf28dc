import type { ClientSet, OwnChain } from "./affinity.ts";
import { type Contribution, type Element, NOTHING } from "./contribution.ts";
import { type Dialect, type SetDeclaration, type SetName, TABLE } from "./table.ts";

/** A set and a key, as one text: what identifies an element. */
export function elementId({ set, key }: { readonly set: SetName; readonly key: string }): string {
  return `${set} ${key}`;
}

/** What one transaction does to the table, in the order in which it does it. */
export interface TransactionPlan {
  /** Begins with an empty table, whatever there was. */
  readonly replacesTable: boolean;
  readonly newSets: ReadonlyMap<string, SetDeclaration>;
  readonly newClientSets: ReadonlyMap<string, ClientSet>;
  /** The chains to be made or written anew, in an order in which each refers to earlier ones only. */
  readonly chains: readonly ChainWrite[];
  readonly deletedElements: ReadonlyMap<SetName, readonly string[]>;
  readonly newElements: ReadonlyMap<SetName, readonly string[]>;
  readonly deletedChains: readonly string[];
  readonly deletedSets: readonly string[];
}

/** A chain to be made or written anew. */
export interface ChainWrite {
  readonly name: string;
  readonly hook: string | undefined;
  readonly rules: readonly string[];
  /** What is there before: no such chain, one that can be emptied, one with another hook that must go first. */
  readonly before: "nothing" | "chain" | "other hook";
}

/** nft reads a statement as a whole, so that one of all elements would have it hold them all twice. */
const ELEMENTS_PER_STATEMENT = 1000;

/** The text that nft gets, a statement a piece, newlines included. */
export function* transactionText(plan: TransactionPlan, { ip }: Dialect): Generator<string> {
  const table = `${ip} ${TABLE}`;
  if (plan.replacesTable) yield `add table ${table}\ndelete table ${table}\n`;
  if (plan.replacesTable || plan.newSets.size > 0) yield `add table ${table}\n`;
  for (const [name, { kind, lines }] of plan.newSets) yield `add ${kind} ${table} ${name} { ${lines.join("; ")}; }\n`;
  for (const { name, lines } of plan.newClientSets.values()) {
    yield `add set ${table} ${name} { ${lines.join("; ")}; }\n`;
  }
  for (const { name, hook, before } of plan.chains) {
    if (before !== "nothing") yield `flush chain ${table} ${name}\n`;
    if (before === "other hook") yield `delete chain ${table} ${name}\n`;
    if (before !== "chain") yield `add chain ${table} ${name}${hook === undefined ? "" : ` { ${hook} }`}\n`;
  }
  for (const { name, rules } of plan.chains) for (const rule of rules) yield `add rule ${table} ${name} ${rule}\n`;
  yield* elementStatements(`delete element ${table}`, plan.deletedElements);
  yield* elementStatements(`add element ${table}`, plan.newElements);
  for (const name of plan.deletedChains) yield `flush chain ${table} ${name}\n`;
  for (const name of plan.deletedChains) yield `delete chain ${table} ${name}\n`;
  for (const name of plan.deletedSets) yield `delete set ${table} ${name}\n`;
}

/** How many elements a short transaction has at the most. */
const SHORT = 1_000;

/** Whether a transaction is of elements alone, and of a few. */
export function isShort(plan: TransactionPlan): boolean {
  const others = plan.newSets.size + plan.newClientSets.size + plan.chains.length + plan.deletedChains.length +
    plan.deletedSets.length;
  if (plan.replacesTable || others > 0) return false;
  let elements = 0;
  for (const texts of [...plan.deletedElements.values(), ...plan.newElements.values()]) elements += texts.length;
  return elements <= SHORT;
}

function* elementStatements(what: string, elements: ReadonlyMap<SetName, readonly string[]>): Generator<string> {
  for (const [set, texts] of elements) {
    for (let i = 0; i < texts.length; i += ELEMENTS_PER_STATEMENT) {
      yield `${what} ${set} { ${texts.slice(i, i + ELEMENTS_PER_STATEMENT).join(", ")} }\n`;
    }
  }
}

/** How what one service port contributes is to change. */
export interface Difference {
  readonly deleted: readonly Element[];
  readonly added: readonly Element[];
  readonly writtenChains: readonly (OwnChain & { readonly isNew: boolean })[];
  readonly deletedChains: readonly string[];
  readonly newClientSets: readonly ClientSet[];
  readonly deletedClientSets: readonly string[];
}

/** What leads from one contribution of a service port to another, but for what it shares with others. */
export function difference(before: Contribution, after: Contribution): Difference {
  if (before === NOTHING) {
    return {
      deleted: [],
      added: after.elements,
      writtenChains: after.ownChains.map((chain) => ({ ...chain, isNew: true })),
      deletedChains: [],
      newClientSets: after.clientSets,
      deletedClientSets: [],
    };
  }
  const had = new Map(before.elements.map((element) => [elementId(element), element]));
  const added = after.elements.filter((element) => {
    const id = elementId(element), isThere = had.get(id)?.value === element.value;
    if (isThere) had.delete(id);
    return !isThere;
  });
  const chainsBefore = new Map(before.ownChains.map((chain) => [chain.name, chain]));
  const chainsAfter = new Set(after.ownChains.map(({ name }) => name));
  const setsBefore = new Set(before.clientSets.map(({ name }) => name));
  const setsAfter = new Set(after.clientSets.map(({ name }) => name));
  return {
    deleted: [...had.values()],
    added,
    writtenChains: after.ownChains
      .filter(({ name, rules }) => chainsBefore.get(name)?.rules.join("\n") !== rules.join("\n"))
      .map((chain) => ({ ...chain, isNew: !chainsBefore.has(chain.name) })),
    deletedChains: [...chainsBefore.keys()].filter((name) => !chainsAfter.has(name)),
    newClientSets: after.clientSets.filter(({ name }) => !setsBefore.has(name)),
    deletedClientSets: [...setsBefore].filter((name) => !setsAfter.has(name)),
  };
}
