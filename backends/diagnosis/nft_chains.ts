import type { Family } from "../../core/model/mod.ts";
import type { Runner } from "../tools/mod.ts";
import { type DroppingRule, type ForeignChain, type Hook, isCertain, isSuspect, OWN_CHAINS } from "./chains.ts";

/** The tables that hold nothing but rules of services. */
const OWN_TABLES = ["sluice", "kube-proxy"];
const TIMEOUT_MS = 5_000;
/** The number of tables that are listed. */
const MOST_TABLES = 16;

const TABLE_FAMILIES: Readonly<Record<Family, readonly string[]>> = { IPv4: ["ip", "inet"], IPv6: ["ip6", "inet"] };
/** Rules of a table for both families that match the other one only. */
const OF_OTHER_FAMILY: Readonly<Record<Family, RegExp>> = {
  IPv4: /\bip6 |\bicmpv6\b|nfproto ipv6/,
  IPv6: /\bip (?:s|d)addr\b|\bicmp type\b|nfproto ipv4/,
};

/** The chains of other programs in nf_tables, also those of iptables-nft; undefined if nft cannot list them. */
export async function nftChains(runner: Runner, family: Family): Promise<readonly ForeignChain[] | undefined> {
  const tables = new Set<string>();
  let table = "";
  const listed = await runner.run({
    tool: "nft",
    args: ["list", "chains"],
    timeoutMs: TIMEOUT_MS,
    onLine(line) {
      table = tableOf(line) ?? table;
      const [of = "", name = ""] = table.split(" ");
      if (!line.includes(" hook ") || !TABLE_FAMILIES[family].includes(of) || OWN_TABLES.includes(name)) return;
      if (tables.size < MOST_TABLES) tables.add(table);
    },
  });
  if (listed.exitCode !== 0) return undefined;
  const chains: ForeignChain[] = [];
  for (const table of tables) chains.push(...await chainsOf(runner, family, table));
  return chains;
}

async function chainsOf(runner: Runner, family: Family, table: string): Promise<readonly ForeignChain[]> {
  const reader = createTableReader(table, family);
  // Terse: without the elements of sets.
  const args = ["-t", "list", "table", ...table.split(" ")];
  await runner.run({ tool: "nft", args, timeoutMs: TIMEOUT_MS, onLine: reader.line });
  return reader.chains();
}

function tableOf(line: string): string | undefined {
  return /^table (\w+ \S+) \{/.exec(line)?.[1];
}

/** Reads the listing of a table. */
function createTableReader(table: string, family: Family) {
  const chains: ForeignChain[] = [];
  let isDormant = false;
  let chain:
    | { -readonly [Field in keyof ForeignChain]: ForeignChain[Field] } & { dropping: DroppingRule[] }
    | undefined;
  return {
    chains: (): readonly ForeignChain[] => isDormant ? [] : chains,
    line(line: string) {
      const text = line.trim(), name = /^chain (\S+) \{/.exec(text)?.[1];
      if (name !== undefined) {
        const dropping: DroppingRule[] = [];
        chain = { table: `table ${table}`, name, hook: undefined, dropsByPolicy: false, hasRules: false, dropping };
      } else if (chain === undefined || text === "") {
        // The hooks of a dormant table are not registered.
        isDormant ||= /^flags .*\bdormant\b/.test(text);
      } else if (text === "}") {
        if (!OWN_CHAINS.test(chain.name)) chains.push(chain);
        chain = undefined;
      } else if (/^type \w+ hook /.test(text)) {
        chain.hook = / hook (\w+) /.exec(text)?.[1] as Hook;
        chain.dropsByPolicy = /policy drop;/.test(text);
      } else {
        const rule = droppingRule(text, family);
        if (rule !== undefined) {
          const found = { text: rule, isForAll: isForAll(rule), isFirst: !chain.hasRules };
          if (!isWithoutPackets(text) || isCertain(chain.hook, found)) chain.dropping.push(found);
        }
        chain.hasRules = true;
      }
    },
  };
}

/** A rule that drops packets of the family, without counter and comment; undefined for any other. */
function droppingRule(text: string, family: Family): string | undefined {
  const rule = text.replace(/ ?\bcomment "[^"]*"/, "");
  if (OF_OTHER_FAMILY[family].test(rule)) return undefined;
  const plain = rule.replace(/\bcounter packets \d+ bytes \d+ /, "");
  return /(?:^| )(?:drop|reject(?: with .*)?|xt target "(?:DROP|REJECT)")$/.test(plain) && isSuspect(plain)
    ? plain
    : undefined;
}

/** Whether a rule's counter says that it has matched no packet. */
function isWithoutPackets(rule: string): boolean {
  return /\bcounter packets 0 /.test(rule);
}

function isForAll(rule: string): boolean {
  return /^(?:drop|reject|xt target)/.test(rule);
}
