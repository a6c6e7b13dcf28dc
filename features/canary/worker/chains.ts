/** Reads and judges the chains of other programs, which can drop packets regardless of the service rules. */
import { ifInstalled, type Runner } from "../../../backends/tools/mod.ts";
import type { Family } from "../../../platform/mod.ts";
import type { PathFinding } from "../calls.ts";

/** The places in the kernel where a chain sees packets. */
export type Hook = "prerouting" | "input" | "forward" | "output" | "postrouting";

/** A rule that drops or rejects packets. */
export interface DroppingRule {
  /** The rule without its counters and its comment. */
  readonly text: string;
  /** Whether it has no conditions. */
  readonly isForAll: boolean;
  /** Whether it is the first rule of its chain. */
  readonly isFirst: boolean;
  /** The packets that it has matched; undefined if it does not count them. */
  readonly packets: number | undefined;
}

/** A chain that is not Sluice's. */
export interface ForeignChain {
  /** `table ip filter`. */
  readonly table: string;
  readonly name: string;
  /** Undefined for a chain to which only other chains lead. */
  readonly hook: Hook | undefined;
  readonly dropsByPolicy: boolean;
  readonly hasRules: boolean;
  /** Rules known to have matched no packet are omitted, except rules for which `isCertain` is true. */
  readonly dropping: readonly DroppingRule[];
}

/** A chain while it is read. */
type Chain = { -readonly [Field in keyof ForeignChain]: ForeignChain[Field] } & { dropping: DroppingRule[] };

/** Whether a rule stops all packets of pods, including future ones. */
function isCertain(
  hook: Hook | undefined,
  { isForAll, isFirst }: Pick<DroppingRule, "isForAll" | "isFirst">,
): boolean {
  return hook === "forward" && isForAll && isFirst;
}

/** The chains of Sluice and kube-proxy in tables that they share. */
const OWN_CHAINS = /^KUBE-/;
/** Rules that drop only packets of broken connections. */
const HARMLESS = /\bct ?state (?:\w+,)*invalid\b|--ctstate (?:\w+,)*INVALID\b/i;

/** Whether a drop rule counts as a suspect. */
function isSuspect(rule: string): boolean {
  return !HARMLESS.test(rule);
}

/** The maximum number of reported suspects. */
const MOST_SUSPECTS = 3;

interface Suspect extends PathFinding {
  /** The lowest is the most likely. */
  readonly rank: number;
}

/** The findings about foreign chains: first the chains that certainly stop the pods' packets, then the most likely suspects. */
export function judgeChains(chains: readonly ForeignChain[]): readonly PathFinding[] {
  const found = chains.flatMap(suspectsOf);
  found.sort((a, b) => Number(b.certain) - Number(a.certain) || a.rank - b.rank);
  // Without nft, the default variant of iptables may be the legacy one, which is read twice.
  const different = [...new Map(found.map((one) => [one.detail, one])).values()];
  return different.slice(0, MOST_SUSPECTS).map(({ cause, detail, certain }) => ({ cause, detail, certain }));
}

/** Names the rule of a chain. */
export function ruleText({ table, name }: ForeignChain, { text }: DroppingRule): string {
  return `chain ${name} of ${table} has the rule “${text}”`;
}

function suspectsOf(foreign: ForeignChain): readonly Suspect[] {
  const { table, name, hook, dropsByPolicy, hasRules, dropping } = foreign;
  const chain = `chain ${name} of ${table}`, isForward = hook === "forward";
  // Packets of the canary do not pass the hook forward.
  const rank = (base: number) => base + (isForward ? 10 : 0);
  const suspects: Suspect[] = dropping.map((rule) => ({
    cause: "foreign-chain",
    detail: rule.isForAll ? `${chain} drops all packets that reach its rule “${rule.text}”` : ruleText(foreign, rule),
    certain: isCertain(hook, rule),
    rank: rank(rule.isForAll ? 0 : 1),
  }));
  if (dropsByPolicy) {
    const detail = hasRules ? `${chain} drops what its rules do not accept` : `${chain} drops every packet`;
    const certain = isForward && !hasRules;
    suspects.push({ cause: "foreign-chain", detail, certain, rank: rank(hasRules ? 2 : 0) });
  }
  return suspects;
}

/** The chains of other programs. nft also shows the chains of iptables-nft, but not the chains of iptables-legacy. */
export async function foreignChains(runner: Runner, family: Family): Promise<readonly ForeignChain[]> {
  const [fromNft, legacy] = await Promise.all([
    ifInstalled(nftChains(runner, family)),
    iptablesChains(runner, family, "legacy"),
  ]);
  const others = fromNft ?? await iptablesChains(runner, family, "default") ?? [];
  return [...others, ...legacy ?? []];
}

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

/** The chains of other programs in nf_tables, including iptables-nft; undefined if nft cannot list them. */
async function nftChains(runner: Runner, family: Family): Promise<readonly ForeignChain[] | undefined> {
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
  let chain: Chain | undefined;
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
          const packets = packetsOf(text);
          const found = { text: rule, isForAll: isForAll(rule), isFirst: !chain.hasRules, packets };
          if (packets !== 0 || isCertain(chain.hook, found)) chain.dropping.push(found);
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

/** The packets that a rule has matched; undefined if it has no counter. */
function packetsOf(rule: string): number | undefined {
  const packets = /\bcounter packets (\d+) /.exec(rule)?.[1];
  return packets === undefined ? undefined : Number(packets);
}

function isForAll(rule: string): boolean {
  return /^(?:drop|reject|xt target)/.test(rule);
}

const PREFIX: Readonly<Record<Family, string>> = { IPv4: "iptables", IPv6: "ip6tables" };

/** The variants of iptables-save: the default, or iptables-legacy, whose chains nft does not show. */
type SaveVariant = "default" | "legacy";

/** The chains of other programs in iptables; undefined if that variant is not installed. */
async function iptablesChains(
  runner: Runner,
  family: Family,
  variant: SaveVariant,
): Promise<readonly ForeignChain[] | undefined> {
  const reader = createSaveReader(PREFIX[family]);
  const tool = `${PREFIX[family]}${variant === "legacy" ? "-legacy" : ""}-save`;
  // Lists the tables that are in use, and loads no module for others.
  const listed = await ifInstalled(runner.run({ tool, args: ["-c"], timeoutMs: TIMEOUT_MS, onLine: reader.line }));
  return listed && reader.chains();
}

/** Reads the output of `iptables-save -c`. */
function createSaveReader(program: string) {
  const all: Chain[] = [];
  const ofTable = new Map<string, Chain>();
  let table = "";
  return {
    chains: (): readonly ForeignChain[] => all,
    line(line: string) {
      if (line.startsWith("*")) {
        table = line.slice(1);
        ofTable.clear();
      } else if (line.startsWith(":")) {
        const [name = "", policy] = line.slice(1).split(" ");
        if (OWN_CHAINS.test(name)) return;
        const hook = policy === "-" ? undefined : name.toLowerCase() as Hook;
        const place = { table: `${program} table ${table}`, name, hook };
        const chain: Chain = { ...place, dropsByPolicy: policy === "DROP", hasRules: false, dropping: [] };
        ofTable.set(name, chain);
        all.push(chain);
      } else {
        const [, packets, name = "", rule = ""] = /^\[(\d+):\d+\] -A (\S+) ?(.*)$/.exec(line) ?? [];
        const chain = ofTable.get(name);
        if (chain === undefined) return;
        if (/-j (?:DROP|REJECT)\b/.test(rule) && isSuspect(rule)) {
          const place = { isForAll: rule.startsWith("-j "), isFirst: !chain.hasRules };
          const found = { text: rule, ...place, packets: Number(packets) };
          if (packets !== "0" || isCertain(chain.hook, found)) chain.dropping.push(found);
        }
        chain.hasRules = true;
      }
    },
  };
}
