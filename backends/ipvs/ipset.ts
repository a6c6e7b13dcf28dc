import type { Family } from "../../core/model/mod.ts";
import { failureText, type Runner } from "../tools/mod.ts";
import { createLine, type Entry, SET_KINDS, setName } from "./sets.ts";

/** What the kernel holds of a family's sets. */
export interface ListedSets {
  /** The names of those that are there. */
  readonly names: ReadonlySet<string>;
  readonly entries: ReadonlySet<Entry>;
}

/** A change of a set. */
export interface SetChange {
  readonly does: "add" | "del";
  readonly entry: Entry;
}

/** What ipset refused, and what it says of it. The changes before it may be in effect, those behind it are not. */
export interface RefusedEntry {
  readonly entry: Entry | undefined;
  readonly failure: string;
}

/** The sets of one family that are IPVS mode's. */
export interface Sets {
  list(): Promise<ListedSets>;
  /** Creates the sets that are missing, and does the changes, in one call; what is so already is fine. */
  apply(missing: ReadonlySet<string>, changes: readonly SetChange[]): Promise<RefusedEntry | undefined>;
  /** Removes all sets. Throws where one is still in use. */
  destroy(): Promise<void>;
}

/** The sets of this host. */
export function createSets(family: Family, runner: Runner): Sets {
  const own = new Set(SET_KINDS.map((kind) => setName(kind, family)));
  return {
    async list() {
      const names = new Set<string>(), entries = new Set<Entry>();
      const onLine = (line: string) => {
        const [does, name] = line.split(" ", 2);
        if (!name || !own.has(name)) return;
        if (does === "create") names.add(name);
        else if (does === "add") entries.add(line.slice("add ".length));
      };
      const result = await runner.run({ tool: "ipset", args: ["save"], onLine });
      if (result.exitCode !== 0) throw new Error(failureText("ipset save", result));
      return { names, entries };
    },
    async apply(missing, changes) {
      const lines = SET_KINDS.filter((kind) => missing.has(setName(kind, family))).map((kind) =>
        createLine(kind, family)
      );
      const created = lines.length;
      for (const { does, entry } of changes) lines.push(`${does} ${entry}`);
      const stdin = lines.map((line) => `${line}\n`);
      const result = await runner.run({ tool: "ipset", args: ["restore", "-exist"], stdin });
      if (result.exitCode === 0) return undefined;
      const line = /Error in line (\d+)/.exec(result.stderr)?.[1];
      const entry = line === undefined ? undefined : changes[Number(line) - 1 - created]?.entry;
      return { entry, failure: failureText("ipset restore", result) };
    },
    async destroy() {
      const names: string[] = [];
      const listed = await runner.run({
        tool: "ipset",
        args: ["list", "-n"],
        onLine: (name) => own.has(name) && names.push(name),
      });
      if (listed.exitCode !== 0) throw new Error(failureText("ipset list", listed));
      if (names.length === 0) return;
      const stdin = names.map((name) => `destroy ${name}\n`);
      const result = await runner.run({ tool: "ipset", args: ["restore", "-exist"], stdin });
      if (result.exitCode !== 0) throw new Error(failureText("ipset restore", result));
    },
  };
}
