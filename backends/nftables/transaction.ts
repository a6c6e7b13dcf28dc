import type { PlaceChange } from "../tools/mod.ts";
import { kindOfSet, type SetDeclaration, type SetName, setText } from "./sets.ts";
import { type BaseChain, type Dialect, TABLE } from "./table.ts";

/** A part of the table that is written and deleted as a whole, as nft prints it: parts are compared as text. */
export interface Item {
  readonly list: ItemList;
  /** The name of a chain or set; the key of an element. */
  readonly key: string;
  /** The hook and rules of a chain; the declaration of a set or map; the value of an element, empty in a set. */
  readonly text: string;
}

/** The kind of an item: a chain, a set or map, or an element of the set or map of this name. */
export type ItemList = "chain" | "set" | SetName;

/** The identity of an item, as one text. */
export function itemId({ list, key }: Pick<Item, "list" | "key">): string {
  return `${list} ${key}`;
}

/** The list and key of an item with this identity. */
export function parseItemId(id: string): Pick<Item, "list" | "key"> {
  const space = id.indexOf(" ");
  return { list: id.slice(0, space) as ItemList, key: id.slice(space + 1) };
}

/** The text of a chain. */
export function chainText(hook: string | undefined, rules: readonly string[]): string {
  return (hook === undefined ? rules : [hook, ...rules]).join("\n");
}

/** The hook and rules of a chain's text. */
export function chainLines(text: string): readonly string[] {
  return text === "" ? [] : text.split("\n");
}

/** Items by list. */
type Items = ReadonlyMap<ItemList, readonly Item[]>;

/**
 * The items of the table in the kernel: the texts by list and key. `chain` and `set` are always among the lists. Of the elements that
 * rules add, only those of clients are, summed up; without `clients`, there were too many to read.
 */
export type Listing = ReadonlyMap<ItemList, Map<string, string>>;

/** One transaction on our table. An item that gets another text is deleted and added; a chain then keeps its references. */
export interface Transaction {
  /** Whether the table is created where it does not exist, or removed first and created again. */
  readonly table: "keep" | "create" | "replace";
  readonly deleted: Items;
  /** Chains are in an order in which each refers only to earlier ones. */
  readonly added: Items;
}

/** nft reads a statement as a whole, so one statement with all elements would make it hold them all twice. */
const ELEMENTS_PER_STATEMENT = 1000;

/** The statements of a transaction, without newlines. */
export function* transactionStatements(transaction: Transaction, { ip }: Dialect): Generator<string> {
  const { deleted, added } = transaction;
  const table = `${ip} ${TABLE}`;
  if (transaction.table === "replace") yield* [`add table ${table}`, `delete table ${table}`];
  if (transaction.table !== "keep") yield `add table ${table}`;
  for (const { key, text } of added.get("set") ?? []) yield setStatement(table, key, text);
  const chains = chainTexts(added), chainsBefore = chainTexts(deleted);
  for (const [name, text] of chains) {
    const before = chainsBefore.get(name), hook = hookOf(text);
    // A hook cannot be changed: the chain must go first.
    const isKept = before !== undefined && (hook === undefined || hook === before.split("\n", 1)[0]);
    if (before !== undefined) yield `flush chain ${table} ${name}`;
    if (before !== undefined && !isKept) yield `delete chain ${table} ${name}`;
    if (!isKept) yield chainStatement(table, name, hook);
  }
  for (const [name, text] of chains) {
    const rules = chainLines(text).slice(hookOf(text) === undefined ? 0 : 1);
    for (const rule of rules) yield ruleStatement(table, name, rule);
  }
  for (const [set, items] of elementsOf(deleted)) {
    yield* elementStatements("delete", table, set, items, ({ key }) => key);
  }
  for (const [set, items] of elementsOf(added)) yield* elementStatements("add", table, set, items, elementText);
  const unwanted = [...chainsBefore.keys()].filter((name) => !chains.has(name));
  for (const name of unwanted) yield `flush chain ${table} ${name}`;
  for (const name of unwanted) yield `delete chain ${table} ${name}`;
  for (const { key, text } of deleted.get("set") ?? []) yield `delete ${kindOf(text)} ${table} ${key}`;
}

/**
 * Statements that create a table beside the main one, or write its rules again.
 * @param chains each after those that it refers to
 */
export function* tableStatements(
  name: string,
  sets: Readonly<Record<string, SetDeclaration>>,
  chains: readonly BaseChain[],
  dialect: Dialect,
): Generator<string> {
  const table = `${dialect.ip} ${name}`;
  yield `add table ${table}`;
  for (const [set, declaration] of Object.entries(sets)) yield setStatement(table, set, setText(declaration, dialect));
  for (const { name, hook, rules } of chains) {
    yield* [chainStatement(table, name, hook), `flush chain ${table} ${name}`];
    for (const rule of rules) yield ruleStatement(table, name, rule);
  }
}

function setStatement(table: string, name: string, text: string): string {
  const [kind, ...lines] = text.split("\n");
  return `add ${kind} ${table} ${name} { ${lines.join("; ")}; }`;
}

function chainStatement(table: string, name: string, hook: string | undefined): string {
  return `add chain ${table} ${name}${hook === undefined ? "" : ` { ${hook} }`}`;
}

function ruleStatement(table: string, chain: string, rule: string): string {
  return `add rule ${table} ${chain} ${rule}`;
}

/** Statements that add or delete elements of a set. */
export function* elementStatements<Element>(
  verb: "add" | "delete",
  table: string,
  set: string,
  elements: readonly Element[],
  textOf: (element: Element) => string,
): Generator<string> {
  for (let i = 0; i < elements.length; i += ELEMENTS_PER_STATEMENT) {
    const texts = elements.slice(i, i + ELEMENTS_PER_STATEMENT).map(textOf);
    yield `${verb} element ${table} ${set} { ${texts.join(", ")} }`;
  }
}

/** The texts of chains, by name. */
function chainTexts(items: Items): ReadonlyMap<string, string> {
  return new Map(items.get("chain")?.map(({ key, text }) => [key, text]));
}

/** The hook at which the kernel calls a chain; undefined for a chain that is only jumped to. No rule begins like one. */
function hookOf(text: string): string | undefined {
  return text.startsWith("type ") ? text.split("\n", 1)[0] : undefined;
}

/** An element as nft prints it. */
export function elementText({ key, text }: Item): string {
  return text === "" ? key : `${key} : ${text}`;
}

/** The elements among items, by set. */
function elementsOf(items: Items): readonly (readonly [SetName, readonly Item[]])[] {
  return [...items].flatMap(([list, elements]) => list === "chain" || list === "set" ? [] : [[list, elements]]);
}

/** The kind of a declaration: `set` or `map`. */
function kindOf(declaration: string): string {
  return declaration.split("\n", 1)[0]!;
}

/** The number of elements among items. */
export function countElements(items: Items): number {
  return elementsOf(items).reduce((count, [, { length }]) => count + length, 0);
}

/** The chains, sets and maps that a transaction changes. */
export function* changedPlaces({ deleted, added }: Transaction): Generator<PlaceChange> {
  const members = (name: string, kind: string, what?: "missing" | "unwanted"): PlaceChange => ({
    kind: "members",
    place: `${kind} ${name}`,
    removed: deleted.get(name as SetName)?.map(({ key }) => key) ?? [],
    added: added.get(name as SetName)?.map(elementText) ?? [],
    what,
  });
  const chains = chainTexts(added), chainsBefore = chainTexts(deleted);
  for (const name of new Set([...chains.keys(), ...chainsBefore.keys()])) {
    const before = chainsBefore.get(name), after = chains.get(name);
    yield {
      kind: "chain",
      place: `chain ${name}`,
      held: before === undefined ? undefined : chainLines(before),
      wanted: after === undefined ? undefined : chainLines(after),
    };
  }
  const created = new Set<string>();
  for (const { key, text } of added.get("set") ?? []) {
    created.add(key);
    yield members(key, kindOf(text), "missing");
  }
  for (const name of new Set([...elementsOf(deleted), ...elementsOf(added)].map(([name]) => name))) {
    if (!created.has(name)) yield members(name, kindOfSet(name));
  }
  for (const { key, text } of deleted.get("set") ?? []) yield members(key, kindOf(text), "unwanted");
}

/** The most elements of a short transaction. */
const SHORT = 1_000;

/** Whether a transaction changes only elements, and few of them. */
export function isShort({ table, deleted, added }: Transaction): boolean {
  return table === "keep" && ![deleted, added].some((items) => items.has("chain") || items.has("set")) &&
    countElements(deleted) + countElements(added) <= SHORT;
}

/** The difference between a service port's own items before and after. */
export function difference(
  before: readonly Item[],
  after: readonly Item[],
): { readonly deleted: Iterable<Item>; readonly added: readonly Item[] } {
  // Most items are where they were, which is cheaper to see than to look each up by its id.
  const isInPlace = (item: Item, i: number, others: readonly Item[]) => {
    const other = others[i];
    return other !== undefined && other.text === item.text && other.key === item.key && other.list === item.list;
  };
  const had = new Map(before.filter((item, i) => !isInPlace(item, i, after)).map((item) => [itemId(item), item]));
  const added = after.filter((item, i) => {
    if (isInPlace(item, i, before)) return false;
    const id = itemId(item), isThere = had.get(id)?.text === item.text;
    if (isThere) had.delete(id);
    return !isThere;
  });
  return { deleted: had.values(), added };
}
