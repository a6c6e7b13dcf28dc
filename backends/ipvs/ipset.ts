import type { Family } from "../../core/model/mod.ts";
import {
  failureOf,
  type FailureTable,
  type PlaceChange,
  printedInput,
  requireSuccess,
  type Runner,
  runOrThrow,
  type ToolFailure,
} from "../tools/mod.ts";
import { type Entry, SET_KINDS, setName, setOptions } from "./sets.ts";

/** The sets of a family in the kernel. */
export interface ListedSets {
  /** The names of the sets that exist. */
  readonly names: ReadonlySet<string>;
  readonly entries: ReadonlySet<Entry>;
}

/** A change of one element. */
export interface SetChange {
  readonly does: "add" | "del";
  readonly entry: Entry;
}

/** One run of `ipset restore`, as data. */
interface SetTransaction {
  /** The sets to create, with their options. */
  readonly created?: readonly { readonly name: string; readonly options: string }[];
  readonly changes?: readonly SetChange[];
  /** The names of the sets to destroy. */
  readonly destroyed?: readonly string[];
}

/** Prints a transaction for `ipset restore`: one line per piece, newlines included. */
function* transactionLines({ created = [], changes = [], destroyed = [] }: SetTransaction): Generator<string> {
  for (const { name, options } of created) yield `create ${name} ${options}\n`;
  for (const { does, entry } of changes) yield `${does} ${entry}\n`;
  for (const name of destroyed) yield `destroy ${name}\n`;
}

/** The sets that a transaction changes. */
function* changedSets({ created = [], changes = [], destroyed = [] }: SetTransaction): Generator<PlaceChange> {
  for (const { name, options } of created) {
    yield { kind: "members", place: `ipset ${name}`, removed: [], added: [`a ${options}`] };
  }
  for (const { does, entry } of changes) {
    const [name, element] = entry.split(" ") as [string, string];
    const [removed, added] = does === "del" ? [[element], []] : [[], [element]];
    yield { kind: "members", place: `ipset ${name}`, removed, added };
  }
  for (const name of destroyed) {
    yield { kind: "members", place: `ipset ${name}`, removed: ["the set itself"], added: [] };
  }
}

/**
 * A failure of ipset, with the entry that it names. Changes before that entry may be in effect; those after it are not.
 */
export interface SetFailure extends ToolFailure {
  readonly entry: Entry | undefined;
}

/** Messages of ipset 7. */
const FAILURES: FailureTable = [["absent", /set with the given name does not exist/]];

/** The sets of IPVS mode in one family. */
export interface Sets {
  list(): Promise<ListedSets>;
  /** Creates missing sets and applies changes in one call; a change that is already in effect is not a failure. */
  apply(missing: ReadonlySet<string>, changes: readonly SetChange[]): Promise<SetFailure | undefined>;
  /** Removes all sets. Throws if one is still in use. */
  destroy(): Promise<void>;
}

/** The sets of this host. */
export function createSets(family: Family, runner: Runner): Sets {
  const own = new Set(SET_KINDS.map((kind) => setName(kind, family)));
  const restore = (transaction: SetTransaction) =>
    runner.run({
      tool: "ipset",
      args: ["restore", "-exist"],
      stdin: printedInput(() => transactionLines(transaction)),
      changes: () => changedSets(transaction),
    });
  return {
    async list() {
      const names = new Set<string>(), entries = new Set<Entry>();
      const onLine = (line: string) => {
        const [does, name] = line.split(" ", 2);
        if (!name || !own.has(name)) return;
        if (does === "create") names.add(name);
        else if (does === "add") entries.add(line.slice("add ".length));
      };
      await runOrThrow(runner, { tool: "ipset", args: ["save"], onLine }, "ipset save");
      return { names, entries };
    },
    async apply(missing, changes) {
      const created = SET_KINDS.map((kind) => ({ name: setName(kind, family), options: setOptions(kind, family) }))
        .filter(({ name }) => missing.has(name));
      const result = await restore({ created, changes });
      const failure = failureOf("ipset restore", result, FAILURES);
      if (!failure) return undefined;
      const line = /Error in line (\d+)/.exec(result.stderr)?.[1];
      return { ...failure, entry: line === undefined ? undefined : changes[Number(line) - 1 - created.length]?.entry };
    },
    async destroy() {
      const names: string[] = [];
      const onLine = (name: string) => own.has(name) && names.push(name);
      await runOrThrow(runner, { tool: "ipset", args: ["list", "-n"], onLine }, "ipset list");
      if (names.length === 0) return;
      requireSuccess("ipset restore", await restore({ destroyed: names }));
    },
  };
}
