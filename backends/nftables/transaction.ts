import type { PlaceChange } from "../tools/mod.ts";
import type { ClientSet } from "./affinity.ts";
import { type Contribution, type Element, NOTHING } from "./desired.ts";
import { declareSets, type Dialect, type SetDeclaration, type SetName, TABLE } from "./table.ts";

/** The identity of an element: its set and key as one text. */
export function elementId({ set, key }: { readonly set: SetName; readonly key: string }): string {
  return `${set} ${key}`;
}

/** One transaction on our table as data, in the order in which nft carries it out. */
export interface Transaction {
  /** Whether the table is created where it does not exist, or removed first and created again. */
  readonly table: "keep" | "create" | "replace";
  readonly newSets: ReadonlyMap<string, SetDeclaration>;
  /** The chains to write, in an order in which each refers only to earlier ones. */
  readonly chains: readonly ChainWrite[];
  /** The keys of the elements to delete. */
  readonly deletedElements: ReadonlyMap<SetName, readonly string[]>;
  /** The elements to add: a key, or `key : value` in a map, or `key timeout 1h` in a set of clients. */
  readonly newElements: ReadonlyMap<string, readonly string[]>;
  readonly deletedChains: readonly ChainDeletion[];
  readonly deletedSets: readonly SetDeletion[];
}

/** A chain to create, or to fill with other rules. */
export interface ChainWrite {
  readonly name: string;
  /** The hook at which the kernel calls it, as nft prints it; undefined for a chain that is only jumped to. */
  readonly hook: string | undefined;
  readonly rules: readonly string[];
  /** The chain's text in the kernel, as `chainText` joins it; undefined for a chain that does not exist. */
  readonly held: string | undefined;
}

/** A chain to delete. */
export interface ChainDeletion {
  readonly name: string;
  /** The chain's text in the kernel, as `chainText` joins it. */
  readonly held: string;
}

/** A set or map to delete. */
export interface SetDeletion {
  readonly name: string;
  readonly kind: SetDeclaration["kind"];
}

/** nft reads a statement as a whole, so one statement with all elements would make it hold them all twice. */
const ELEMENTS_PER_STATEMENT = 1000;

/** Prints a transaction as input of nft, one statement at a time, newlines included. */
export function* transactionText(transaction: Transaction, { ip }: Dialect): Generator<string> {
  const { newSets, chains, deletedElements, newElements, deletedChains, deletedSets } = transaction;
  const table = `${ip} ${TABLE}`;
  if (transaction.table === "replace") yield `add table ${table}\ndelete table ${table}\n`;
  if (transaction.table !== "keep") yield `add table ${table}\n`;
  for (const [name, { kind, lines }] of newSets) yield `add ${kind} ${table} ${name} { ${lines.join("; ")}; }\n`;
  for (const chain of chains) {
    const { name, hook, held } = chain;
    if (held !== undefined) yield `flush chain ${table} ${name}\n`;
    if (held !== undefined && !keepsHook(chain)) yield `delete chain ${table} ${name}\n`;
    if (!keepsHook(chain)) yield `add chain ${table} ${name}${hook === undefined ? "" : ` { ${hook} }`}\n`;
  }
  for (const { name, rules } of chains) for (const rule of rules) yield `add rule ${table} ${name} ${rule}\n`;
  yield* elementStatements(`delete element ${table}`, deletedElements);
  yield* elementStatements(`add element ${table}`, newElements);
  for (const { name } of deletedChains) yield `flush chain ${table} ${name}\n`;
  for (const { name } of deletedChains) yield `delete chain ${table} ${name}\n`;
  for (const { name } of deletedSets) yield `delete set ${table} ${name}\n`;
}

/** Whether the chain exists with the same hook. A hook cannot be changed: the chain must go first. */
function keepsHook({ hook, held }: ChainWrite): boolean {
  return held !== undefined && (hook === undefined || hook === held.split("\n", 1)[0]);
}

/** The chains, sets and maps that a transaction changes. */
export function* changedPlaces(transaction: Transaction, dialect: Dialect): Generator<PlaceChange> {
  const { newSets, chains, deletedElements, newElements, deletedChains, deletedSets } = transaction;
  const declared = declareSets(dialect);
  const members = (name: string, kind: SetDeclaration["kind"], what?: "missing" | "unwanted"): PlaceChange => ({
    kind: "members",
    place: `${kind} ${name}`,
    removed: deletedElements.get(name as SetName) ?? [],
    added: newElements.get(name) ?? [],
    what,
  });
  for (const { name, hook, rules, held } of chains) {
    const wanted = hook === undefined ? rules : [hook, ...rules];
    yield { kind: "chain", place: `chain ${name}`, held: held === undefined ? undefined : linesOf(held), wanted };
  }
  for (const { name, held } of deletedChains) {
    yield { kind: "chain", place: `chain ${name}`, held: linesOf(held), wanted: undefined };
  }
  for (const [name, { kind }] of newSets) yield members(name, kind, "missing");
  for (const name of new Set([...deletedElements.keys(), ...newElements.keys()])) {
    if (!newSets.has(name)) yield members(name, declared.get(name as SetName)!.kind);
  }
  for (const { name, kind } of deletedSets) yield members(name, kind, "unwanted");
}

/** The hook and rules of a chain's text. */
function linesOf(text: string): string[] {
  return text === "" ? [] : text.split("\n");
}

/** The most elements of a short transaction. */
const SHORT = 1_000;

/** Whether a transaction changes only elements, and few of them. */
export function isShort(transaction: Transaction): boolean {
  const { table, newSets, chains, deletedElements, newElements, deletedChains, deletedSets } = transaction;
  if (table !== "keep" || newSets.size + chains.length + deletedChains.length + deletedSets.length > 0) return false;
  let elements = 0;
  for (const texts of [...deletedElements.values(), ...newElements.values()]) elements += texts.length;
  return elements <= SHORT;
}

function* elementStatements(what: string, elements: ReadonlyMap<string, readonly string[]>): Generator<string> {
  for (const [set, texts] of elements) {
    for (let i = 0; i < texts.length; i += ELEMENTS_PER_STATEMENT) {
      yield `${what} ${set} { ${texts.slice(i, i + ELEMENTS_PER_STATEMENT).join(", ")} }\n`;
    }
  }
}

/** The difference between two contributions of a service port. */
interface Difference {
  readonly deleted: readonly Element[];
  readonly added: readonly Element[];
  readonly writtenChains: readonly ChainWrite[];
  readonly deletedChains: readonly ChainDeletion[];
  readonly newClientSets: readonly ClientSet[];
  readonly deletedClientSets: readonly string[];
}

/** The difference between two contributions of a service port, without shared chains and elements. */
export function difference(before: Contribution, after: Contribution): Difference {
  if (before === NOTHING) {
    return {
      deleted: [],
      added: after.elements,
      writtenChains: after.ownChains.map((chain) => ({ ...chain, hook: undefined, held: undefined })),
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
  const chainsBefore = new Map(before.ownChains.map(({ name, rules }) => [name, rules.join("\n")]));
  const chainsAfter = new Set(after.ownChains.map(({ name }) => name));
  const setsBefore = new Set(before.clientSets.map(({ name }) => name));
  const setsAfter = new Set(after.clientSets.map(({ name }) => name));
  return {
    deleted: [...had.values()],
    added,
    writtenChains: after.ownChains
      .map((chain) => ({ ...chain, hook: undefined, held: chainsBefore.get(chain.name) }))
      .filter(({ rules, held }) => held !== rules.join("\n")),
    deletedChains: [...chainsBefore].filter(([name]) => !chainsAfter.has(name)).map(([name, held]) => ({ name, held })),
    newClientSets: after.clientSets.filter(({ name }) => !setsBefore.has(name)),
    deletedClientSets: [...setsBefore].filter((name) => !setsAfter.has(name)),
  };
}
