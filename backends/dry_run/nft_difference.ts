import { type Difference, type Differences, linesOf } from "./difference.ts";
import { type DifferentLine, differentLines } from "./line_difference.ts";

const STATEMENT = /^(add|delete|flush) (table|chain|set|map|rule|element) \S+ \S+ ?(\S*) ?(.*)$/;

/** Differences between what `nft list table` printed and what nft would be given, by chain and set. */
export function createNftDifferences(): Differences {
  // What is listed of each chain, and what it is to be; a set's elements are told by what is added and deleted.
  const held = new Map<string, string[]>(), wanted = new Map<string, string[]>();
  const hooks = new Map<string, string>();
  const elements = new Map<string, { readonly added: string[]; readonly deleted: string[] }>();
  // Chains and sets may have the same name.
  const setKinds = new Map<string, string>();
  const unwantedChains = new Set<string>(), unwantedSets = new Set<string>(), missingSets = new Set<string>();
  let block: { readonly kind: string; readonly name: string } | undefined;
  let replaced = false;

  const takeListed = (line: string) => {
    const begins = /^\t(map|set|chain) (\S+) \{$/.exec(line);
    if (begins) {
      block = { kind: begins[1]!, name: begins[2]! };
      if (block.kind === "chain") held.set(block.name, []);
      else setKinds.set(block.name, block.kind);
    } else if (line === "\t}") {
      block = undefined;
    } else if (block?.kind === "chain") {
      held.get(block.name)!.push(line.trim());
    }
  };

  const elementsOf = (name: string) => {
    const found = elements.get(name) ?? { added: [], deleted: [] };
    elements.set(name, found);
    return found;
  };

  const takeStatement = (line: string) => {
    const [, verb, what, name = "", rest = ""] = STATEMENT.exec(line) ?? [];
    if (what === "table") replaced ||= verb === "delete";
    else if (what === "element") {
      const list = rest.slice(2, -2).split(", ");
      if (verb === "add") elementsOf(name).added.push(...list);
      else elementsOf(name).deleted.push(...list);
    } else if (what === "rule") wanted.get(name)?.push(rest);
    else if (what === "chain") {
      if (verb === "delete") unwantedChains.add(name);
      else {
        const hook = /^\{ (.*) \}$/.exec(rest)?.[1];
        if (hook !== undefined) hooks.set(name, hook);
        unwantedChains.delete(name);
        wanted.set(name, []);
      }
    } else if (verb === "delete") unwantedSets.add(name);
    else if (what !== undefined) {
      setKinds.set(name, what);
      missingSets.add(name);
    }
  };

  const chainDifference = ([name, rules]: readonly [string, readonly string[]]): Difference[] => {
    const before = replaced ? undefined : held.get(name);
    const place = `chain ${name}`;
    if (unwantedChains.has(name)) return [{ place, what: "unwanted", lines: differentLines(before ?? [], []) }];
    // What is only flushed keeps the hook that it has.
    const hook = hooks.get(name) ?? before?.find((line) => line.startsWith("type "));
    const lines = differentLines(before ?? [], hook === undefined ? rules : [hook, ...rules]);
    return before && lines.length === 0 ? [] : [{ place, what: before ? "differs" : "missing", lines }];
  };

  const setDifference = (name: string): Difference => {
    const { added, deleted } = elements.get(name) ?? { added: [], deleted: [] };
    const lines: DifferentLine[] = [
      ...deleted.map((text) => ({ sign: "-", text }) as const),
      ...added.map((text) => ({ sign: "+", text }) as const),
    ];
    const what = unwantedSets.has(name) ? "unwanted" : missingSets.has(name) ? "missing" : "differs";
    return { place: `${setKinds.get(name) ?? "set"} ${name}`, what, lines };
  };

  return {
    onRead(call, line) {
      if (call.args.includes("table")) takeListed(line);
    },
    onChange({ stdin = [] }) {
      for (const line of linesOf(stdin)) takeStatement(line);
    },
    found() {
      const sets = new Set([...elements.keys(), ...missingSets, ...unwantedSets]);
      return [
        ...[...sets].map(setDifference),
        ...[...wanted].flatMap(chainDifference),
      ].sort((a, b) => a.place < b.place ? -1 : 1);
    },
  };
}
