import type { Family } from "../../core/model/mod.ts";
import {
  failureOf,
  type NftSession,
  printedInput,
  type Runner,
  type ToolCall,
  type ToolFailure,
} from "../tools/mod.ts";
import {
  type ChainHandles,
  createChainReader,
  createTableReader,
  elementReader,
  type TableListing,
} from "./listing.ts";
import { declarationOf } from "./sets.ts";
import { type Dialect, DIALECTS, TABLE } from "./table.ts";
import { changedPlaces, isShort, type Transaction, transactionStatements } from "./transaction.ts";

/** nft, for one family. */
export interface NftTools {
  readonly dialect: Dialect;
  /**
   * Applies a transaction atomically. A short one takes a millisecond in the long-running nft; any other runs in its
   * own `nft -f -`. Throws if the long-running nft ends before it answers.
   * @param onInputTaken called when `nft -f -` has read all of its input and is busy with it
   */
  transact(transaction: Transaction, onInputTaken?: () => void): Promise<ToolFailure | undefined>;
  /** Applies statements, without newlines, as one transaction. Throws if it is refused. */
  write(statements: readonly string[]): Promise<void>;
  /**
   * Reads the main table; undefined if it does not exist. A short one is read from the long-running nft. The clients are left out
   * if the last listing had very many elements that rules have added. Throws if it fails.
   */
  readTable(): Promise<TableListing | undefined>;
  /** Lists an object with its lines: `set ip sluice services`; false if it does not exist. Throws if it fails. */
  list(object: string, onLine: (line: string) => void, options?: ListingOptions): Promise<boolean>;
  /**
   * Deletes a table with everything in it; false if it does not exist. Throws if it fails. Tables are not listed first:
   * nft 1.0.6 reads every rule of the host to list their names.
   */
  removeTable(name: string): Promise<boolean>;
}

interface ListingOptions extends Pick<ToolCall, "timeoutMs"> {
  /** Arguments of nft. */
  readonly args?: readonly string[];
  /** Lists it if it can, for what is listed often. */
  readonly session?: NftSession;
}

/** A table of 250,000 elements takes nft ten seconds to list on an idle machine. */
export const LIST_TIMEOUT_MS = 180_000;
/** A listing of up to this many lines is short; the long-running nft keeps the memory of what it lists. */
const SHORT_LISTING = 1_000;
/** The number of elements that rules have added from which on listings leave them out: nft takes 20 ms and 1 MB for 1,000. */
const MANY_ADDED = 16_384;
/** The number of such listings until one has all again: the clients may have expired. */
const MOST_OMITTING = 100;
/**
 * Each other set is then listed for itself, if there is at most one for this many of those elements. One takes nft 4 ms, up to four
 * times as long as these elements; but with a million of them, a listing takes a gigabyte.
 */
const ADDED_PER_SET = 64;
/** It takes milliseconds, and a change may wait for it. */
const LIST_CHAINS_TIMEOUT_MS = 10_000;
/** Transactions are cut into batches that take a second or two (see write.ts). */
const TRANSACTION_TIMEOUT_MS = 60_000;

/** The nft of this host, for a family. */
export function createNftTools(family: Family, runner: Runner, session?: NftSession): NftTools {
  const dialect = DIALECTS[family];
  /** Applies statements atomically, in the session if they are short. */
  const apply = async (
    statements: () => Iterable<string>,
    isShort: boolean,
    options?: Pick<ToolCall, "onInputTaken" | "changes">,
  ) => {
    if (isShort && await session?.transact([...statements()])) return undefined;
    // If the session refused them, this run returns the reason.
    const stdin = printedInput(function* () {
      for (const statement of statements()) yield `${statement}\n`;
    });
    const call = { tool: "nft", args: ["-f", "-"], timeoutMs: TRANSACTION_TIMEOUT_MS, stdin, ...options };
    return failureOf("nft", await runner.run(call));
  };
  return {
    dialect,
    async transact(transaction, onInputTaken) {
      const options = { onInputTaken, changes: () => changedPlaces(transaction) };
      return await apply(() => transactionStatements(transaction, dialect), isShort(transaction), options);
    },
    async write(statements) {
      const failure = await apply(() => statements, true);
      if (failure) throw new Error(failure.text);
    },
    readTable: createTableListing(dialect, runner, session),
    async list(object, onLine, options) {
      return isThere((await list(runner, object, onLine, options)).failure);
    },
    removeTable: async (name) => isThere(await apply(() => [`delete table ${dialect.ip} ${name}`], false)),
  };
}

/** Reads the table, through the session while it is short, and without what packets have added once that was much. */
function createTableListing(dialect: Dialect, runner: Runner, session: NftSession | undefined): NftTools["readTable"] {
  const object = `table ${dialect.ip} ${TABLE}`;
  // What the last complete listing had, and how many have left something out since then.
  const state = { lines: Infinity, added: 0, omitting: 0 };
  return async () => {
    const omits = state.added >= MANY_ADDED && state.omitting < MOST_OMITTING;
    const withoutAdded = omits ? await readWithoutAdded(runner, dialect, state.added / ADDED_PER_SET) : undefined;
    if (withoutAdded) {
      state.omitting++;
      return withoutAdded;
    }
    state.omitting = 0;
    const reader = createTableReader(dialect), isShort = state.lines <= SHORT_LISTING;
    const options = { timeoutMs: LIST_TIMEOUT_MS, session: isShort ? session : undefined };
    const { failure, lines } = await list(runner, object, reader.onLine, options);
    if (!isThere(failure)) return undefined;
    state.added = reader.addedLines();
    state.lines = lines;
    return reader.result();
  };
}

/** Reads the table without the elements that rules have added; undefined if nft refuses, or it has more other sets than this. */
async function readWithoutAdded(runner: Runner, dialect: Dialect, mostSets: number): Promise<TableListing | undefined> {
  const { ip } = dialect, reader = createTableReader(dialect), options = { timeoutMs: LIST_TIMEOUT_MS };
  // To list a table, nft 1.0.6 reads the elements of all of its sets, even with -t.
  await list(runner, `ruleset ${ip}`, reader.onLine, { ...options, args: ["-t"] });
  const table = reader.result(), declared = table?.items.get("set") ?? new Map<string, string>();
  const sets = [...declared].filter(([name]) => declarationOf(name).elements !== "rules");
  if (table === undefined || sets.length > mostSets) return undefined;
  for (const [name, text] of sets) {
    const [kind] = text.split("\n", 1), object = `${kind} ${ip} ${TABLE} ${name}`;
    const { failure } = await list(runner, object, reader.onLine, options);
    if (failure) return undefined;
  }
  return { ...table, items: new Map([...table.items].filter(([name]) => name !== "clients")) };
}

/**
 * Runs a listing; resolves with its failure, or its number of lines. Throws if it cannot be run, is cut off, or does not begin with
 * the table of its single object. A listing of `sets table ip NAME` also has other tables of the family (nft 1.0.6).
 */
async function list(
  runner: Runner,
  object: string,
  onLine: (line: string) => void,
  { args = [], timeoutMs, session }: ListingOptions = {},
): Promise<{ readonly failure: ToolFailure | undefined; readonly lines: number }> {
  const table = /^\w+ (ip6? \S+)/.exec(object)?.[1], begin = table && `table ${table} {`;
  const shown = await session?.list(`list ${object}`).catch(() => undefined);
  if (shown?.[0] !== undefined && shown[0] === begin) {
    shown.forEach(onLine);
    return { failure: undefined, lines: shown.length };
  }
  // If the session's nft refused to list it, this run returns the reason.
  let first: string | undefined, last: string | undefined, lines = 0;
  const onAnyLine = (line: string) => {
    lines++;
    first ??= line;
    onLine(last = line);
  };
  const words = ["list", ...object.split(" ")], call = { args: [...args, ...words], timeoutMs, onLine: onAnyLine };
  const name = `nft ${words.slice(0, 2).join(" ")}`;
  const failure = failureOf(name, await runner.run({ tool: "nft", ...call }));
  if (failure) return { failure, lines };
  // If a truncated listing were accepted as the kernel's state, everything would be written again.
  const flaw = begin !== undefined && first !== begin
    ? `is malformed (${JSON.stringify(first?.slice(0, 80))})`
    : "ends in the middle of a table";
  const isWhole = (begin === undefined || first === begin) && (last === undefined || last === "}");
  if (!isWhole) throw new Error(`${name} succeeded, but its output ${flaw}`);
  return { failure, lines };
}

/** Whether the table or set of a call exists. Throws if the call failed for another reason. */
function isThere(failure: ToolFailure | undefined): boolean {
  if (failure && failure.kind !== "absent") throw new Error(failure.text);
  return failure === undefined;
}

/**
 * The elements of a set as nft prints them; undefined if it does not exist. Throws if it fails.
 * @param session lists them if it can, for a set that is read often
 */
export async function elementsOf(
  { list, dialect }: Pick<NftTools, "list" | "dialect">,
  set: string,
  session: NftSession,
  table: string = TABLE,
): Promise<readonly string[] | undefined> {
  const elements: string[] = [];
  const onLine = elementReader((_, element) => elements.push(element));
  return await list(`set ${dialect.ip} ${table} ${set}`, onLine, { session }) ? elements : undefined;
}

/** The chains of the main table. nft lists the chains of all tables without their rules, which is cheap. */
export async function chainsInTable({ list, dialect }: NftTools): Promise<ChainHandles> {
  const { chains, onLine } = createChainReader(dialect);
  const options = { args: ["-a"], timeoutMs: LIST_CHAINS_TIMEOUT_MS };
  if (!await list(`chains ${dialect.ip}`, onLine, options)) throw new Error("nft list chains found no such family");
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
