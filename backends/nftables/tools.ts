import type { Family } from "../../core/model/mod.ts";
import {
  failureOf,
  type NftSession,
  printedInput,
  type Runner,
  type ToolCall,
  type ToolFailure,
} from "../tools/mod.ts";
import { type Dialect, DIALECTS, TABLE } from "./table.ts";
import { changedPlaces, isShort, type Transaction, transactionText } from "./transaction.ts";

/** nft, for one family. */
export interface NftTools {
  /**
   * Applies a transaction atomically. A short one takes a millisecond in the long-running nft; any other runs in its
   * own `nft -f -`. Throws if the long-running nft ends before it answers.
   * @param onInputTaken called when `nft -f -` has read all of its input and is busy with it
   */
  transact(transaction: Transaction, onInputTaken?: () => void): Promise<ToolFailure | undefined>;
  /**
   * Lists the table as text; false if it does not exist. A short one is read from the long-running nft. Throws if it fails.
   * @param onOmitted called before the first line if elements that rules have added are left out, since the last listing had very
   * many of them
   */
  listTable(onLine: (line: string) => void, onOmitted: () => void): Promise<boolean>;
  /** Applies statements, without newlines, as one transaction. Throws if it is refused. */
  write(statements: readonly string[]): Promise<void>;
  /**
   * Lists the elements of a set as text; undefined if it does not exist. Throws if it fails.
   * @param reader lists them if it can, for a set that is read often
   * @param table the table of the set; the main one by default
   */
  listElements(set: string, reader?: NftSession, table?: string): Promise<readonly string[] | undefined>;
  /** Lists the elements of all sets of a table, not of maps; false without the table. Throws if it fails. */
  listSets(table: string, onElement: (set: string, element: string) => void): Promise<boolean>;
  /** Lists the chains of all tables of the family with their handles and without their rules, which is cheap. */
  listChains(onLine: (line: string) => void): Promise<void>;
  /** Reads the packets of a counter; undefined if it does not exist. Throws if it fails. */
  readCounter(table: string, counter: string): Promise<number | undefined>;
  /** Whether the host has a flow table, whose connections skip most hooks. */
  hasFlowTable(): Promise<boolean>;
  /**
   * Deletes a table with everything in it; false if it does not exist. Throws if it fails. Tables are not listed first:
   * nft 1.0.6 reads every rule of the host to list their names.
   */
  removeTable(name: string): Promise<boolean>;
}

/** A table of 250,000 elements takes nft ten seconds to list on an idle machine. */
const LIST_TIMEOUT_MS = 180_000;
/** A listing of up to this many lines is short; the long-running nft keeps the memory of what it lists. */
const SHORT_LISTING = 1_000;
/** The number of elements that rules have added from which on listings leave them out: nft takes 20 ms and 1 MB for 1,000. */
const MANY_ADDED = 16_384;
/** The number of such listings until one has all again: the clients may have expired. */
const MOST_OMITTING = 100;
/** The number of other sets of which each is then listed for itself. */
const MOST_SETS = 64;
/** It takes milliseconds, and a change may wait for it. */
const LIST_CHAINS_TIMEOUT_MS = 10_000;
/** Transactions are cut into batches that take a second or two (see apply.ts). */
const TRANSACTION_TIMEOUT_MS = 60_000;

/** The nft of this host, for a family. */
export function createNftTools(family: Family, runner: Runner, session?: NftSession): NftTools {
  const dialect = DIALECTS[family], { ip } = dialect;
  const runInput = async (input: Pick<ToolCall, "stdin" | "onInputTaken" | "changes">) =>
    failureOf("nft", await runner.run({ tool: "nft", args: ["-f", "-"], timeoutMs: TRANSACTION_TIMEOUT_MS, ...input }));
  return {
    async transact(transaction, onInputTaken) {
      const changes = () => changedPlaces(transaction);
      if (!session || !isShort(transaction)) {
        const stdin = printedInput(() => transactionText(transaction, dialect));
        return await runInput({ stdin, onInputTaken, changes });
      }
      const statements = [...transactionText(transaction, dialect)];
      if (await session.transact(statements.map((statement) => statement.trimEnd()))) return undefined;
      // If the session refused the transaction, this run returns the reason.
      return await runInput({ stdin: statements, onInputTaken, changes });
    },
    listTable: createTableListing(dialect, runner, session),
    async write(statements) {
      if (session && await session.transact(statements)) return;
      const failure = await runInput({ stdin: statements.map((statement) => `${statement}\n`) });
      if (failure) throw new Error(failure.text);
    },
    async listElements(set, reader, table = TABLE) {
      const args = ["list", "set", ip, table, set];
      const elements: string[] = [];
      const onLine = elementReader((_, element) => elements.push(element));
      const listed = await reader?.list(args.join(" ")).catch(() => undefined);
      if (listed) {
        listed.forEach(onLine);
        return elements;
      }
      // If the reader's nft refused to list it, this run returns the reason.
      const { failure } = await list(runner, "list set", { args }, onLine, `table ${ip} ${table} {`);
      return isThere(failure) ? elements : undefined;
    },
    async listSets(table, onElement) {
      const call = { args: ["list", "sets", "table", ip, table], timeoutMs: LIST_TIMEOUT_MS };
      return isThere(
        failureOf("nft list sets", await runner.run({ tool: "nft", ...call, onLine: elementReader(onElement) })),
      );
    },
    async listChains(onLine) {
      const call = { args: ["-a", "list", "chains", ip], timeoutMs: LIST_CHAINS_TIMEOUT_MS };
      const { failure } = await list(runner, "list chains", call, onLine);
      if (failure) throw new Error(failure.text);
    },
    async readCounter(table, counter) {
      const result = await runner.run({ tool: "nft", args: ["list", "counter", ip, table, counter] });
      if (!isThere(failureOf("nft list counter", result))) return undefined;
      const packets = /^\s*packets (\d+)/m.exec(result.stdout)?.[1];
      if (packets === undefined) throw new Error("nft list counter succeeded, but its output is malformed");
      return Number(packets);
    },
    async hasFlowTable() {
      const call = { tool: "nft", args: ["list", "flowtables"], timeoutMs: LIST_CHAINS_TIMEOUT_MS };
      const { stdout } = await runner.run(call);
      return /^\s*flowtable /m.test(stdout);
    },
    removeTable: async (name) => isThere(await runInput({ stdin: [`delete table ${ip} ${name}\n`] })),
  };
}

/** Lists the table, through the session while it is short, and without what packets have added once that was much. */
function createTableListing(dialect: Dialect, runner: Runner, session: NftSession | undefined): NftTools["listTable"] {
  const { ip } = dialect, args = ["list", "table", ip, TABLE], begin = `table ${ip} ${TABLE} {`;
  // What the last complete listing had, and how many have left something out since then.
  const state = { lines: Infinity, hasManyAdded: false, omitting: 0 };
  return async (onLine, onOmitted) => {
    const shown = state.lines <= SHORT_LISTING ? await session?.list(args.join(" ")).catch(() => undefined) : undefined;
    if (shown?.[0] === begin) {
      state.lines = shown.length;
      shown.forEach(onLine);
      return true;
    }
    const omits = state.hasManyAdded && state.omitting < MOST_OMITTING;
    const withoutAdded = omits ? await linesWithoutAdded(runner, dialect) : undefined;
    if (withoutAdded) {
      state.omitting++;
      onOmitted();
      withoutAdded.forEach(onLine);
      return true;
    }
    state.omitting = 0;
    let added = 0, isDynamic = false;
    const onAnyLine = (line: string) => {
      if (line === "\t}") isDynamic = false;
      else if (IS_DYNAMIC.test(line)) isDynamic = true;
      else if (isDynamic && (line.startsWith(ELEMENTS) || line.startsWith("\t\t\t"))) added++;
      onLine(line);
    };
    const { failure, lines } = await list(runner, "list table", { args, timeoutMs: LIST_TIMEOUT_MS }, onAnyLine, begin);
    if (!isThere(failure)) return false;
    state.hasManyAdded = added >= MANY_ADDED;
    state.lines = lines;
    return true;
  };
}

/**
 * Runs a listing; resolves with its failure, or its number of lines. Throws if it cannot be run, does not begin with this line, if
 * given, or is cut off.
 * @param name the call in messages
 */
async function list(
  runner: Runner,
  name: string,
  call: Pick<ToolCall, "args" | "timeoutMs">,
  onLine: (line: string) => void,
  begin?: string,
): Promise<{ readonly failure: ToolFailure | undefined; readonly lines: number }> {
  let first: string | undefined, last: string | undefined, lines = 0;
  const onAnyLine = (line: string) => {
    lines++;
    first ??= line;
    onLine(last = line);
  };
  const failure = failureOf(`nft ${name}`, await runner.run({ tool: "nft", ...call, onLine: onAnyLine }));
  if (failure) return { failure, lines };
  // If a truncated listing were accepted as the kernel's state, everything would be written again.
  const flaw = begin !== undefined && first !== begin
    ? `is malformed (${JSON.stringify(first?.slice(0, 80))})`
    : "ends in the middle of a table";
  const isWhole = (begin === undefined || first === begin) && (last === undefined || last === "}");
  if (!isWhole) throw new Error(`nft ${name} succeeded, but its output ${flaw}`);
  return { failure, lines };
}

/** Lists the table without the elements that rules have added; undefined if nft refuses, or it has very many other sets. */
async function linesWithoutAdded(runner: Runner, { ip }: Dialect): Promise<readonly string[] | undefined> {
  const lines: string[] = [], timeoutMs = LIST_TIMEOUT_MS;
  let inTable = false;
  // To list a table, nft 1.0.6 reads the elements of all of its sets, even with -t.
  await list(runner, "list ruleset", { args: ["-t", "list", "ruleset", ip], timeoutMs }, (line) => {
    if (line.startsWith("table ")) inTable = line === `table ${ip} ${TABLE} {`;
    if (inTable) lines.push(line);
  });
  const sets = staticSetsIn(lines);
  if (lines.length === 0 || sets.length > MOST_SETS) return undefined;
  const elements = new Map<number, string[]>();
  for (const { kind, name, end } of sets) {
    const read: string[] = [], args = ["list", kind, ip, TABLE, name];
    const { failure } = await list(runner, `list ${kind}`, { args, timeoutMs }, (line) => {
      if (elementsIn(line)) read.push(line);
    });
    if (failure) return undefined;
    elements.set(end, read);
  }
  return lines.flatMap((line, i) => [...elements.get(i) ?? [], line]);
}

const IS_DYNAMIC = /^\t\tflags .*\bdynamic\b/;

/** The sets and maps in a listing of a table to which rules add nothing, with the index of their last line. */
function staticSetsIn(lines: readonly string[]) {
  return lines.flatMap((line, start) => {
    const [, kind, name] = /^\t(set|map) (\S+) \{$/.exec(line) ?? [];
    if (kind === undefined || name === undefined) return [];
    const end = lines.indexOf("\t}", start);
    return lines.slice(start, end).some((one) => IS_DYNAMIC.test(one)) ? [] : [{ kind, name, end }];
  });
}

/** Whether the table or set of a call exists. Throws if the call failed for another reason. */
export function isThere(failure: ToolFailure | undefined): boolean {
  if (failure && failure.kind !== "absent") throw new Error(failure.text);
  return failure === undefined;
}

/** The chains of a table by name, each with its handle if it has a hook. A chain that is created again has another handle. */
export type ChainHandles = ReadonlyMap<string, string | undefined>;

/** The chains in the table. */
export async function chainsInTable(tools: NftTools, dialect: Dialect): Promise<ChainHandles> {
  const { chains, onLine } = createChainReader(dialect);
  await tools.listChains(onLine);
  return chains;
}

/** The chains as a long-running nft with `-a` lists them; undefined unless it lists all of these names. */
export async function chainsShown(
  session: NftSession,
  dialect: Dialect,
  names: Iterable<string>,
): Promise<ChainHandles | undefined> {
  const wanted = new Set(names);
  let found: ChainHandles | undefined;
  await session.shows(`list chains ${dialect.ip}`, (lines) => {
    const { chains, onLine } = createChainReader(dialect);
    lines.forEach(onLine);
    if (wanted.isSubsetOf(new Set(chains.keys()))) found = chains;
    return found !== undefined;
  });
  return found;
}

/** Reads the lines of a listing of all chains, with handles. */
function createChainReader({ ip }: Dialect) {
  const chains = new Map<string, string | undefined>();
  let inTable = false, name = "", handle = "";
  const onLine = (line: string) => {
    const chain = /^\tchain (\S+) \{ # handle (\d+)$/.exec(line);
    if (line.startsWith("table ")) inTable = line === `table ${ip} ${TABLE} {`;
    else if (inTable && chain) {
      [, name = "", handle = ""] = chain;
      chains.set(name, undefined);
    } else if (inTable && line.includes(" hook ")) chains.set(name, handle);
  };
  return { chains, onLine };
}

const SET = /^\tset (\S+) \{$/;
const ELEMENTS = "\t\telements = { ";

/**
 * Reads the lines of a listing of sets.
 * @param onElement called with each element as nft prints it: `10.0.0.1 timeout 3h expires 2h59m`
 * @param onSet called for each set before its elements
 */
export function elementReader(
  onElement: (set: string, element: string) => void,
  onSet: () => void = () => {},
): (line: string) => void {
  let set = "";
  return (line) => {
    const name = SET.exec(line)?.[1];
    if (name !== undefined) {
      set = name;
      onSet();
    }
    for (const element of elementsIn(line) ?? []) onElement(set, element);
  };
}

/** The elements in a line of a listing; undefined if it is not one with elements. */
export function elementsIn(line: string): readonly string[] | undefined {
  const start = line.startsWith(ELEMENTS) ? ELEMENTS.length : 0;
  if (start === 0 && !line.startsWith("\t\t\t")) return undefined;
  const end = line.endsWith(" }") ? line.length - 2 : line.endsWith(",") ? line.length - 1 : line.length;
  return line.slice(start, end).trimStart().split(", ");
}
