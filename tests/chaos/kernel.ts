/** What the node's kernel holds, in a form that can be compared. */
import type { ProxyMode } from "../../core/model/mod.ts";
import type { ChaosLab } from "./lab.ts";

/**
 * Our rules on the node in both families without counters and handles: chains by name with their rules in order,
 * elements of sets and maps sorted.
 */
export async function kernelState(lab: ChaosLab, mode: ProxyMode): Promise<string> {
  if (mode === "nftables") {
    const tables = await lab.run("node", ["nft", "-s", "list", "ruleset"]);
    return nftState(tables);
  }
  const texts = await Promise.all(["iptables-save", "ip6tables-save"].map((tool) => lab.run("node", [tool])));
  return texts.map(iptablesState).join("\n");
}

/** The addresses that connections are sent to. */
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
  const blocks: string[] = [];
  let table = "";
  let block: string[] = [];
  // One block per chain, set and map: each begins with one tab and ends with "\t}".
  for (const line of text.split("\n")) {
    if (/^table /.test(line)) table = line;
    else if (/^\t\S.*\{$/.test(line)) block = [`${table}${line}`];
    else if (line === "\t}") blocks.push(normalBlock(block));
    else block.push(line);
  }
  return blocks.sort().join("\n");
}

function normalBlock(lines: readonly string[]): string {
  const text = lines.join("\n");
  const elements = /elements = \{([^}]*)\}/.exec(text);
  if (!elements) return text;
  const sorted = elements[1]!.split(",").map((element) => element.trim().replace(/ expires \S+/, "")).sort();
  return text.replace(elements[0], () => `elements:\n\t\t\t${sorted.join("\n\t\t\t")}`);
}
