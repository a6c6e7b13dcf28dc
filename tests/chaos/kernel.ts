/** Reads the rules in the node's kernel in a canonical form, and compares them over time. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model/mod.ts";
import { rulesToCompare, withoutBlock, withoutNumbers, withSortedSlots } from "../fakes/slots.ts";
import type { ChaosLab } from "./lab.ts";
import { waitFor } from "./wait.ts";

/**
 * Sluice's rules on the node in both families without counters and handles: chains by name with their rules in order,
 * elements of sets and maps sorted, slots as `withSortedSlots` orders them. Without the table of deleted endpoints: a fresh start has none.
 */
export async function kernelState(lab: Pick<ChaosLab, "run">, mode: ProxyMode): Promise<string> {
  if (mode === "nftables") {
    const tables = await lab.run("node", ["nft", "-s", "list", "ruleset"]);
    return nftState(tables);
  }
  const texts = await Promise.all(["iptables-save", "ip6tables-save"].map((tool) => lab.run("node", [tool])));
  return texts.map(iptablesState).join("\n");
}

/** The kernel's rules at one moment, to compare later states with. */
export interface KernelSnapshot {
  /**
   * Resolves with the milliseconds until the kernel holds the same rules again, ignoring counters and the order of
   * elements.
   * @throws with the differences after `withinMs`
   */
  waitUntilRestored(withinMs: number): Promise<number>;
  /** Throws with the differences if the kernel does not hold the same rules now. */
  assertUnchanged(message: string): Promise<void>;
}

/** Records the rules that the kernel holds now. */
export async function takeSnapshot(lab: ChaosLab, mode: ProxyMode): Promise<KernelSnapshot> {
  const wanted = await kernelState(lab, mode);
  return {
    async assertUnchanged(message) {
      const found = await kernelState(lab, mode);
      assert.ok(found === wanted, `${message}:\n${differences(found, wanted)}`);
    },
    async waitUntilRestored(withinMs) {
      let found = "";
      const isEqual = async () => (found = await kernelState(lab, mode)) === wanted;
      try {
        return await waitFor("the kernel holds the recorded rules", withinMs, isEqual, 50);
      } catch (error) {
        throw new Error(`the kernel's rules differ from those after a fresh start:\n${differences(found, wanted)}`, {
          cause: error,
        });
      }
    },
  };
}

/** The endpoint addresses in the rules. */
export function targetsInKernel(state: string): Set<string> {
  const targets = new Set<string>();
  for (const [, address] of state.matchAll(/--to-destination \[?([0-9a-f.:]+?)\]?:\d+(?:\s|$)/g)) targets.add(address!);
  for (const [, address] of state.matchAll(/ \. \d+ : ([0-9a-f.:]+) \. /g)) targets.add(address!);
  return targets;
}

function iptablesState(text: string): string {
  const chains = new Map<string, string[]>();
  let table = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) table = line.slice(1);
    const declared = /^:(\S+) (\S+)/.exec(line);
    if (declared) chains.set(`${table} ${declared[1]}`, [`policy ${declared[2]}`]);
    const rule = /^-A (\S+) (.*)/.exec(line);
    if (rule) chains.get(`${table} ${rule[1]}`)!.push(rule[2]!);
  }
  return [...chains].sort(([a], [b]) => a < b ? -1 : 1).map(([chain, rules]) => [chain, ...rules].join("\n  ")).join(
    "\n",
  );
}

function nftState(text: string): string {
  const blocks: string[][] = [];
  let table = "";
  let block: string[] = [];
  // One block per chain, set and map, indented by one tab and closed by "\t}".
  for (const line of text.split("\n")) {
    if (/^table /.test(line)) table = line;
    else if (/^\t\S.*\{$/.test(line)) block = [`${table}${line}`];
    else if (line !== "\t}") block.push(line);
    else {
      blocks.push(block);
      // What ends the table belongs to no block.
      block = [];
    }
  }
  const normal = [...Map.groupBy(blocks, ([head = ""]) => withoutBlock(head)).values()].map(normalBlock);
  return [...new Set(normal)].filter((block) => !/^table \w+ sluice-resets /.test(block)).sort().join("\n");
}

/** A chain, set or map, or the maps with the endpoints of some numbers each as one. */
function normalBlock(blocks: readonly (readonly string[])[]): string {
  const [head = "", ...lines] = blocks[0]!, text = [withoutBlock(head), ...lines].join("\n");
  const ELEMENTS = /elements = \{([^}]*)\}/, printed = ELEMENTS.exec(text);
  if (!printed) return [withoutNumbers(head), ...rulesToCompare(head, lines)].join("\n");
  const elements = blocks.flatMap((block) => ELEMENTS.exec(block.join("\n"))?.[1]?.split(",") ?? []);
  const sorted = withSortedSlots(elements.map((element) => element.trim().replace(/ expires \S+/, "")));
  return text.replace(printed[0], () => `elements:\n\t\t\t${sorted.join("\n\t\t\t")}`);
}

function differences(found: string, wanted: string): string {
  const holds = found.split("\n"), wants = wanted.split("\n");
  const extra = without(holds, wants), missing = without(wants, holds);
  const first = holds.findIndex((line, i) => line !== wants[i]);
  return [
    ...[`${extra.length} extra:`, ...extra.slice(0, 10), `${missing.length} missing:`, ...missing.slice(0, 10)],
    ...["around the first difference:", ...holds.slice(Math.max(0, first - 3), first + 3)],
  ].join("\n");
}

/** Subtracts the multiset `others` from `lines`. */
function without(lines: readonly string[], others: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const line of others) counts.set(line, (counts.get(line) ?? 0) + 1);
  return lines.filter((line) => {
    const count = counts.get(line) ?? 0;
    counts.set(line, count - 1);
    return count <= 0;
  });
}
