import type { Family, ServicePortKey } from "../../core/model/mod.ts";
import {
  failureOf,
  type PlaceChange,
  printedInput,
  type Runner,
  runOrThrow,
  type ToolCall,
  type ToolFailure,
} from "../tools/mod.ts";
import { type Jump, type RenderedChain, type Table, TABLES } from "./chains.ts";

/** The iptables tools of one family. */
export interface IptablesTools {
  /** Whether to keep the text of rules, for a dry run; a long-lived proxy only needs their hashes. */
  readonly keepsRules: boolean;
  /** Runs `iptables-restore --noflush` on an input. */
  restore(input: RestoreInput<string>): Promise<ToolFailure | undefined>;
  /**
   * Reads all tables with `iptables-save`. Throws if it fails or its output is malformed or incomplete: if a truncated one
   * were accepted as the kernel's state, all rules would be rewritten and jumps duplicated.
   */
  save(reader: SaveReader): Promise<void>;
  /**
   * Prints the lines of `iptables -v -S` for a chain, or a table without one, with the counters of the rules. Throws if
   * there is no such chain. The lock keeps a restore of iptables-legacy, which sets all counters of the table to 0 for
   * a moment, from being read.
   */
  list(table: Table, chain: string | undefined, onLine: (line: string) => void): Promise<void>;
  /** The kernel interface that the tools use. Throws if they are missing. */
  flavour(): Promise<Flavour>;
}

/** Takes what iptables-save prints, table by table: all chains, then their rules, those of a chain one after another. */
interface SaveReader {
  onChain(table: string, chain: string): void;
  /** @param rule the rule without its `-A CHAIN ` */
  onRule(table: string, chain: string, rule: string): void;
}

/**
 * `nf_tables` applies one restore as one transaction whose time grows with the square of its chains; `legacy`
 * replaces the whole table with every restore.
 */
export type Flavour = "nf_tables" | "legacy";

/** The time that a tool waits for the xtables lock, in seconds. */
const LOCK_WAIT_SECONDS = 5;
/** The same for counters, which may be stale. */
const COUNT_WAIT_SECONDS = 1;
const COUNT_TIMEOUT_MS = 2_000;
/** The same for a whole table: 50,000 rules take 1 s. A sync may wait for it. */
const COUNT_ALL_TIMEOUT_MS = 10_000;

/**
 * The default tools of a family on this host, or the tools of one variant by their own names.
 * @param variant the variant; the host's default one if undefined
 */
export function createIptablesTools(family: Family, runner: Runner, variant?: Flavour): IptablesTools {
  const name = family === "IPv4" ? "iptables" : "ip6tables";
  const tool = variant === undefined ? name : `${name}-${variant === "legacy" ? "legacy" : "nft"}`;
  const run = (call: ToolCall) => runOrThrow(runner, call);
  return {
    keepsRules: runner.isDry === true,
    async restore(input) {
      const result = await runner.run({
        tool: `${tool}-restore`,
        args: ["--noflush", "-w", String(LOCK_WAIT_SECONDS)],
        stdin: printedInput(() => restoreLines(input)),
        changes: () => changedPlaces(input),
      });
      return failureOf("iptables-restore", result);
    },
    async save({ onChain, onRule }) {
      let table: string | undefined, strange: string | undefined;
      await run({
        tool: `${tool}-save`,
        args: [],
        onLine(line) {
          if (table !== undefined && line.startsWith("-A ")) {
            const end = line.indexOf(" ", 3);
            onRule(table, line.slice(3, end), line.slice(end + 1));
          } else if (table !== undefined && line.startsWith(":")) {
            onChain(table, line.slice(1, line.indexOf(" ")));
          } else if (table === undefined && line.startsWith("*")) table = line.slice(1);
          else if (line === "COMMIT") table = undefined;
          else if (line !== "" && !line.startsWith("#")) strange ??= line;
        },
      });
      const flaw = strange !== undefined
        ? `is malformed (${JSON.stringify(strange.slice(0, 80))})`
        : table !== undefined
        ? "ends in the middle of a table"
        : undefined;
      if (flaw !== undefined) throw new Error(`${tool}-save succeeded, but its output ${flaw}`);
    },
    async list(table, chain, onLine) {
      const args = ["-w", String(COUNT_WAIT_SECONDS), "-t", table, "-v", "-S", ...(chain === undefined ? [] : [chain])];
      await run({ tool, args, onLine, timeoutMs: chain === undefined ? COUNT_ALL_TIMEOUT_MS : COUNT_TIMEOUT_MS });
    },
    async flavour() {
      const { stdout } = await run({ tool, args: ["--version"] });
      if (!/^ip6?tables /.test(stdout)) {
        throw new Error(`${tool} --version printed no version: ${stdout.slice(0, 80)}`);
      }
      return stdout.includes("nf_tables") ? "nf_tables" : "legacy";
    },
  };
}

/** The marker of `iptables -v -S` before the counters of a rule, which precede its target. */
const COUNTER = " -c ";

/** The number of packets that matched a rule, as `iptables -v -S` prints it; 0 for other lines. */
export function packetsOf(line: string): number {
  const at = line.lastIndexOf(COUNTER);
  return at < 0 ? 0 : parseInt(line.slice(at + COUNTER.length)) || 0;
}

/** The update of one chain by a restore. */
export type ChainUpdate<T extends string = Table> =
  & {
    readonly table: T;
    readonly chain: string;
    /** The rules that the kernel holds; known only in a dry run, and for a chain that exists. */
    readonly held?: readonly string[];
  }
  & (
    /** Creates or empties the chain, and fills it with these rules. */
    | { readonly action: "write"; readonly rendered: RenderedChain; readonly hash: number }
    /** Empties the chain, so that it no longer refers to other chains. */
    | { readonly action: "empty" }
    /** Deletes the chain, to which no other may refer. */
    | { readonly action: "delete" }
  );

/** The input of one iptables-restore, as data. */
export interface RestoreInput<T extends string = Table> {
  readonly updates: readonly ChainUpdate<T>[];
  /** Inserted at the heads of their built-in chains, in this order. */
  readonly jumps?: readonly Jump<T>[];
  /** Deleted: the first identical jump in the built-in chain. */
  readonly surplusJumps?: readonly Jump<T>[];
  /** The common rank of its chains (see WantedChains), if they have one: then they do not refer to each other. */
  readonly rank?: number;
}

/** A chain to remove. */
export type Removal<T extends string = Table> = Pick<ChainUpdate<T>, "table" | "chain" | "held">;

/** The inputs that remove many chains, some at once. All are emptied first, since they may refer to each other. */
export function* removalInputs<T extends string>(
  removals: readonly Removal<T>[],
  atOnce: number,
): Generator<RestoreInput<T>> {
  for (const action of ["empty", "delete"] as const) {
    for (let i = 0; i < removals.length; i += atOnce) {
      yield { updates: removals.slice(i, i + atOnce).map((chain) => ({ ...chain, action })) };
    }
  }
}

/**
 * Prints an input for iptables-restore, one line at a time, newlines included. It first names all chains in descending order:
 * iptables-nft keeps them in a sorted list, in which it then finds the place of each at the start. The rules follow in the order
 * of the updates, in which the kernel lays them out in memory.
 */
export function* restoreLines(input: RestoreInput<string>): Generator<string> {
  const { jumps: allJumps = [], surplusJumps = [] } = input;
  const all = [...input.updates, ...allJumps, ...surplusJumps];
  for (const table of new Set<string>([...TABLES, ...all.map(({ table }) => table)])) {
    const updates = input.updates.filter((update) => update.table === table);
    const jumps = allJumps.filter((jump) => jump.table === table);
    const surplus = surplusJumps.filter((jump) => jump.table === table);
    if (updates.length === 0 && jumps.length === 0 && surplus.length === 0) continue;
    yield `*${table}\n`;
    for (const chain of updates.map((update) => update.chain).sort().reverse()) yield `:${chain} - [0:0]\n`;
    for (const update of updates) {
      if (update.action === "write") { for (const rule of update.rendered.rules) yield `-A ${update.chain} ${rule}\n`; }
    }
    for (const jump of surplus) yield `-D ${jump.from} ${jump.rule}\n`;
    for (const jump of jumps) yield `-I ${jump.from} ${jump.rule}\n`;
    for (const update of updates) if (update.action === "delete") yield `-X ${update.chain}\n`;
    yield "COMMIT\n";
  }
}

/** The chains that an input changes. */
function* changedPlaces({ updates, jumps = [], surplusJumps = [] }: RestoreInput<string>): Generator<PlaceChange> {
  const builtIn = ({ table, from }: Jump<string>, removed: readonly string[], added: readonly string[]) =>
    ({ kind: "built-in chain", place: `${table} ${from}`, removed, added }) as const;
  for (const jump of surplusJumps) yield builtIn(jump, [jump.rule], []);
  for (const jump of jumps) yield builtIn(jump, [], [jump.rule]);
  for (const update of updates) {
    const { table, chain, held, action } = update;
    const wanted = action === "write" ? update.rendered.rules : action === "empty" ? [] : undefined;
    yield { kind: "chain", place: `${table} ${chain}`, held, wanted };
  }
}

interface RestoreLine {
  readonly text: string;
  /** The service port that the line is for; undefined if it is not for a single one. */
  readonly owner: ServicePortKey | undefined;
}

/** The line of an input at a number, counted from 1 as iptables-restore does; undefined beyond its end. */
export function lineOf(input: RestoreInput, number: number): RestoreLine | undefined {
  let at = 0;
  for (const text of restoreLines(input)) {
    if (++at === number) return { text: text.trimEnd(), owner: ownerOfLine(input, text) };
  }
  return undefined;
}

/** The owner of a line, by its chain and the place of its rule in the chain. */
function ownerOfLine(input: RestoreInput, text: string): ServicePortKey | undefined {
  const append = /^-A (\S+) (.*)\n$/.exec(text);
  const chain = append?.[1] ?? /^(?::|-X )(\S+)/.exec(text)?.[1];
  for (const update of input.updates) {
    if (update.chain !== chain || update.action !== "write") continue;
    if (!append) return update.rendered.ownerOf(0);
    const rule = update.rendered.rules.indexOf(append[2]!);
    if (rule >= 0) return update.rendered.ownerOf(rule);
  }
  return undefined;
}

/** The line numbers in a message of iptables-restore: `line 7: …`, `Error occurred at line: 7`, `line 7 failed`. */
export function failedLines(stderr: string): number[] {
  const numbers = [...stderr.matchAll(/\bline:? (\d+)/g)].map((match) => Number(match[1]));
  return [...new Set(numbers)];
}
