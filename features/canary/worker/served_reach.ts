/** Finds rules of other programs that drop packets to or from services and pods: by their addresses and ports. */
import { addressBytes, canonicalPrefix, type Family, familyOf, hostPrefix } from "../../../platform/mod.ts";
import type { RuleInTheWay, ServedAddresses } from "../path_findings.ts";
import type { Runner } from "../../../backends/tools/mod.ts";
import { type DroppingRule, foreignChains, type Hook } from "../../../backends/foreign/mod.ts";
import { ruleText } from "./chains.ts";

/** The hooks that packets of services pass. Rules of the hook input protect the node itself. */
const HOOKS: readonly (Hook | undefined)[] = ["prerouting", "forward", "output", "postrouting"];
const MOST_RULES = 64;

/**
 * Finds rules of base chains whose conditions name nothing but served addresses or ports, in the order of the chains. A rule
 * without a counter must have no other condition either: nothing else shows whether it drops anything. Throws if a tool
 * cannot be run for another reason than that it is not installed.
 */
export async function findRulesInTheWay(
  { runner, family }: { readonly runner: Runner; readonly family: Family },
  served: ServedAddresses,
): Promise<readonly RuleInTheWay[]> {
  const isNamedBy = createReach(served);
  const found = new Map<string, RuleInTheWay>();
  for (const chain of await foreignChains(runner, family)) {
    if (!HOOKS.includes(chain.hook)) continue;
    for (const rule of chain.dropping) {
      if (found.size >= MOST_RULES || !isNamedBy(rule)) continue;
      const detail = ruleText(chain, rule);
      found.set(detail, { detail, packets: rule.packets });
    }
  }
  return [...found.values()];
}

/** Addresses from the first to the last one, as texts of equal length in the order of the addresses. */
interface Range {
  readonly first: string;
  last: string;
}

/** `ip daddr 10.96.0.0/12`, `ip saddr { 10.1.2.3, 10.2.0.0/16 }`, `-d 10.96.0.0/12`. */
const ADDRESSES = /(?:\bip6? [sd]addr (!= )?|(?<!\S)(! )?-[sd] )(\{[^}]*\}|\S+) ?/g;
/** `tcp dport 30080`, `th dport { 80, 30000-32767 }`, `--dport 30000:32767`, `--dports 80,30080`. */
const PORTS = /(?:\b(?:tcp|udp|sctp|th) dport (!= )?|(?<!\S)(! )?--dports? )(\{[^}]*\}|\S+) ?/g;
/** The rest of a rule of nft that has no other conditions. */
const WITHOUT_OTHERS = /^(?:meta l4proto \w+ |ip protocol \w+ )*(?:drop|reject)(?: with .*)?$/;

/** Creates the decision whether a rule names nothing but served addresses or ports. */
function createReach({ prefixes, ports, nodePorts }: ServedAddresses) {
  // Most nodes have no rule that names an address.
  let ranges: readonly Range[] | undefined;

  const isServed = (text: string): boolean => {
    const range = rangeOf(text);
    if (range === undefined) return false;
    ranges ??= merged(prefixes.map((prefix) => between(prefix, prefix)));
    // The last one that does not begin after the range.
    let from = 0, to = ranges.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (ranges[middle]!.first <= range.last) from = middle + 1;
      else to = middle;
    }
    return from > 0 && ranges[from - 1]!.last >= range.first;
  };

  return ({ text, packets }: DroppingRule): boolean => {
    let rest = text, count = 0;
    const every = (pattern: RegExp, isMatch: (value: string) => boolean): boolean => {
      let matches = true;
      rest = rest.replace(pattern, (_, notInNft, notInIptables, values: string) => {
        count++;
        matches &&= !notInNft && !notInIptables && values.split(/[{},\s]+/).some((one) => one !== "" && isMatch(one));
        return "";
      });
      return matches;
    };
    if (!every(ADDRESSES, isServed)) return false;
    const served = count > 0 ? ports : nodePorts;
    const isPort = (value: string) => {
      const [first, last = first] = value.split(/[-:]/).map(Number);
      return served.some((port) => port >= first! && port <= last!);
    };
    return every(PORTS, isPort) && count > 0 && (packets !== undefined || WITHOUT_OTHERS.test(rest));
  };
}

/** The range of an address, a prefix, or two addresses with a hyphen; undefined for anything else, such as a named set. */
function rangeOf(text: string): Range | undefined {
  const [from = "", to = from] = text.split("-");
  const prefixOf = (one: string) => canonicalPrefix(one.includes("/") ? one : hostPrefix(one));
  const first = prefixOf(from), last = prefixOf(to);
  if (first === undefined || last === undefined || familyOf(first) !== familyOf(last)) return undefined;
  return between(first, last);
}

/** From the first address of a canonical prefix to the last one of another. */
function between(first: string, last: string): Range {
  return { first: textOf(first, 0), last: textOf(last, 0xff) };
}

/** The first address of a prefix if the free bits are 0, and the last one if they are 1. */
function textOf(prefix: string, free: number): string {
  const [network = "", length] = prefix.split("/");
  const bytes = addressBytes(network);
  for (let i = 0, left = Number(length); i < bytes.length; i++, left -= 8) {
    if (left < 8) bytes[i]! |= free >> Math.max(0, left);
  }
  return String.fromCharCode(...bytes);
}

function merged(ranges: Range[]): readonly Range[] {
  ranges.sort((a, b) => a.first < b.first ? -1 : 1);
  const result: Range[] = [];
  for (const range of ranges) {
    const before = result.at(-1);
    if (before === undefined || range.first > before.last) result.push(range);
    else if (range.last > before.last) before.last = range.last;
  }
  return result;
}
