/** In-memory nftables: applies statements of nft and prints tables as nft 1.0.6 does. */

/** A set or map: its declaration and its elements with their values (empty in a set). */
export interface NftSet {
  readonly kind: "set" | "map";
  lines: readonly string[];
  readonly elements: Map<string, string>;
  /** The packets that each element added by rules has counted; empty if the set has no counters. */
  readonly counters: Map<string, number>;
  /** Elements with a timeout, such as those that rules add, with the time at which they expire, in milliseconds of the host's clock. */
  readonly clients: Map<string, number>;
}

/** A chain: its hook, if any, and its rules. */
export interface NftChain {
  readonly hook: string | undefined;
  rules: readonly string[];
}

/** A table: sets, chains and counters by name. */
export interface NftTable {
  readonly sets: Map<string, NftSet>;
  readonly chains: Map<string, NftChain>;
  /** The packets of each. */
  readonly counters: Map<string, number>;
}

/** All tables, by family and name: `ip sluice`. */
export type NftTables = Map<string, NftTable>;

/** The handles of chains, apart from what tables are compared by. The kernel counts them in each table. */
const handles = new WeakMap<NftChain, number>();
let lastHandle = 0;

/** Gives a chain a handle, by default a new one. */
function created(chain: NftChain, handle = ++lastHandle): NftChain {
  handles.set(chain, handle);
  return chain;
}

/** The error message of nft for a refused statement. */
export class NftError extends Error {
  override readonly name = "NftError";
}

const MISSING = "Could not process rule: No such file or directory";
const EXISTS = "Could not process rule: File exists";
const FULL = "Could not process rule: Numerical result out of range";
const BUSY = "Could not process rule: Device or resource busy";

/** A deep copy, for a transaction that may fail. */
export function copyTables(tables: NftTables): NftTables {
  return new Map([...tables].map(([name, { sets, chains, counters }]) => [name, {
    sets: new Map([...sets].map(([set, content]) => [set, {
      ...content,
      elements: new Map(content.elements),
      clients: new Map(content.clients),
    }])),
    chains: new Map([...chains].map(([chain, content]) => [chain, created({ ...content }, handles.get(content))])),
    counters: new Map(counters),
  }]));
}

function required<T>(thing: T | undefined): T {
  if (thing === undefined) throw new NftError(MISSING);
  return thing;
}

/** The line with the size of a set. */
const SIZE = /^size (\d+)$/;

/** The maximum number of elements of a set. */
export function sizeOf({ lines }: NftSet): number {
  return lines.map((line) => Number(SIZE.exec(line)?.[1] ?? Infinity)).reduce((a, b) => Math.min(a, b), Infinity);
}

/** Gives a set to which a rule adds elements the kernel's size, unless its declaration has one. */
function limitSize(set: NftSet): void {
  if (sizeOf(set) === Infinity) set.lines = set.lines.toSpliced(1, 0, "size 65535");
}

/** The timeout of the elements of a set that have none of their own. */
export function timeoutOf({ lines }: NftSet): string | undefined {
  return /^timeout (\w+)$/m.exec(lines.join("\n"))?.[1];
}

/** Applies one statement at a time of the host's clock. Throws with nft's error message. */
export function applyStatement(tables: NftTables, statement: string, nowMs: number): void {
  const match = /^(add|delete|flush) (table|set|map|chain|rule|element|counter) (\S+ \S+)(?: (\S+)(?: (.*))?)?$/.exec(
    statement,
  );
  if (!match) throw new NftError(`syntax error, in "${statement}"`);
  const [, verb, kind, tableName, name = "", rest = ""] = match;
  if (kind === "table") {
    if (verb === "add" && !tables.has(tableName!)) {
      tables.set(tableName!, { sets: new Map(), chains: new Map(), counters: new Map() });
    }
    if (verb === "delete" && !tables.delete(tableName!)) throw new NftError(MISSING);
    return;
  }
  const table = required(tables.get(tableName!));
  switch (`${verb} ${kind}`) {
    case "add set":
    case "add map":
      if (!table.sets.has(name)) table.sets.set(name, declaredSet(kind as "set" | "map", rest));
      return;
    case "add counter":
      if (!table.counters.has(name)) table.counters.set(name, 0);
      return;
    case "delete set":
    case "delete map":
      if (isReferenced(table, `@${name}`)) throw new NftError(BUSY);
      required(table.sets.delete(name) || undefined);
      return;
    case "add chain":
      if (!table.chains.has(name)) table.chains.set(name, created({ hook: /^\{ (.*) \}$/.exec(rest)?.[1], rules: [] }));
      return;
    case "flush chain":
      required(table.chains.get(name)).rules = [];
      return;
    case "delete chain":
      required(table.chains.get(name));
      if (isReferenced(table, name)) throw new NftError(BUSY);
      table.chains.delete(name);
      return;
    case "add rule": {
      for (const [, set] of rest.matchAll(/@(\S+)/g)) required(table.sets.get(set!));
      for (const [, set] of rest.matchAll(/\bupdate @(\S+)/g)) limitSize(table.sets.get(set!)!);
      for (const [, chain] of rest.matchAll(/\b(?:goto|jump) (\S+)/g)) required(table.chains.get(chain!));
      const chain = required(table.chains.get(name));
      chain.rules = [...chain.rules, rest];
      return;
    }
    case "add element":
      for (const { key, value } of elementsOf(rest)) {
        const set = required(table.sets.get(name));
        const [, client = timeoutOf(set) && key, timeout = timeoutOf(set)] = /^(.+) timeout (\w+)$/.exec(key) ?? [];
        if (set.clients.has(client ?? key)) continue;
        if (client === undefined) addElement(table, set, key, value);
        else if (set.clients.size >= sizeOf(set)) throw new NftError(FULL);
        else set.clients.set(client, nowMs + durationMs(timeout!));
      }
      return;
    case "delete element":
      for (const { key } of elementsOf(rest)) {
        const { elements, clients } = required(table.sets.get(name));
        if (!elements.delete(key) && !clients.delete(key)) throw new NftError(MISSING);
      }
      return;
    default:
      throw new NftError(`no such statement: "${statement}"`);
  }
}

function declaredSet(kind: "set" | "map", body: string): NftSet {
  const lines = /^\{ (.*); \}$/.exec(body)?.[1]?.split("; ");
  if (!lines) throw new NftError(`syntax error, in "${body}"`);
  return { kind, lines, elements: new Map(), counters: new Map(), clients: new Map() };
}

function addElement(table: NftTable, set: NftSet, key: string, value: string): void {
  const chain = /^goto (\S+)$/.exec(value)?.[1];
  if (chain !== undefined) required(table.chains.get(chain));
  const held = set.elements.get(key);
  if (held !== undefined && held !== value) throw new NftError(EXISTS);
  set.elements.set(key, value);
}

function elementsOf(body: string): { key: string; value: string }[] {
  const list = /^\{ (.*) \}$/.exec(body)?.[1];
  if (list === undefined) throw new NftError(`syntax error, in "${body}"`);
  return list.split(", ").map((element) => {
    const [key = "", value = ""] = element.split(" : ");
    return { key, value };
  });
}

/** Whether a rule or an element references a chain by name, or a set as `@name`. */
function isReferenced(table: NftTable, name: string): boolean {
  const words = (text: string) => text.split(" ").includes(name);
  return [...table.chains.values()].some(({ rules }) => rules.some(words)) ||
    [...table.sets.values()].some(({ elements }) => [...elements.values()].some(words));
}

/** A table as `nft list table` prints it. */
export function* printTable(name: string, { sets, chains }: NftTable): Generator<string> {
  yield `table ${name} {`;
  let isFirst = true;
  for (const [set, content] of sets) {
    if (!isFirst) yield "";
    isFirst = false;
    yield* printSet(set, content);
  }
  for (const [chain, { hook, rules }] of chains) {
    if (!isFirst) yield "";
    isFirst = false;
    yield* printChain(chain, hook, rules);
  }
  yield "}";
}

/** A set or map in its table, as nft prints it. */
export function* printSet(set: string, { kind, lines, elements, counters, clients }: NftSet): Generator<string> {
  yield `\t${kind} ${set} {`;
  for (const line of lines) {
    yield `\t\t${line.replace(/(?<=^timeout )(\d+)s$/, (_, seconds) => duration(Number(seconds)))}`;
  }
  const isCounted = lines.includes("counter");
  const counted = (client: string) => {
    const packets = counters.get(client) ?? (isCounted ? 0 : undefined);
    return packets === undefined ? "" : ` counter packets ${packets} bytes ${packets * PACKET_BYTES}`;
  };
  const alone = (key: string) =>
    isCounted ? `${key} counter packets ${counters.get(key) ?? 0} bytes 0 expires 59s` : key;
  yield* printElements([
    ...[...elements].map(([key, value]) => value === "" ? alone(key) : `${key} : ${value}`),
    ...[...clients.keys()].map((client) => `${client}${counted(client)} expires 59s`),
  ]);
  yield "\t}";
}

/** The size of every packet, with its IP header. */
const PACKET_BYTES = 60;

const UNIT_MS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** A duration as nft prints it, in milliseconds. */
export function durationMs(text: string): number {
  return [...text.matchAll(/(\d+)(ms|[dhms])/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNIT_MS[unit!]!,
    0,
  );
}

/** Seconds in nft's units: `1m30s`. */
function duration(seconds: number): string {
  const units = [["d", 86_400, Number.MAX_SAFE_INTEGER], ["h", 3_600, 24], ["m", 60, 60], ["s", 1, 60]] as const;
  return units.map(([unit, size, limit]) => {
    const count = Math.floor(seconds / size) % limit;
    return count === 0 ? "" : `${count}${unit}`;
  }).join("");
}

/** The chains of a table as `nft -a list chains` prints them. */
export function* printChains(name: string, { chains }: NftTable): Generator<string> {
  yield `table ${name} {`;
  for (const [name, chain] of chains) yield* printChain(name, chain.hook, [], ` # handle ${handles.get(chain) ?? 0}`);
  yield "}";
}

function* printChain(
  chain: string,
  hook: string | undefined,
  rules: readonly string[],
  handle = "",
): Generator<string> {
  yield `\tchain ${chain} {${handle}`;
  if (hook !== undefined) yield `\t\t${hook}`;
  for (const rule of rules) yield `\t\t${rule}`;
  yield "\t}";
}

/** Prints single IPv4 addresses two per line and longer elements one per line, as nft does. */
function* printElements(elements: readonly string[]): Generator<string> {
  const perLine = elements.some((element) => /[ :]/.test(element)) ? 1 : 2;
  for (let i = 0; i < elements.length; i += perLine) {
    const line = elements.slice(i, i + perLine).join(", ");
    yield (i === 0 ? "\t\telements = { " : "\t\t\t     ") + line + (i + perLine < elements.length ? "," : " }");
  }
}
