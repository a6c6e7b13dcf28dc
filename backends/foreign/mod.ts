/**
 * Reads the chains of other programs, which can drop packets regardless of the service rules.
 *
 * In: a runner. Out: what drops packets in each chain. May run: nft, and iptables-save of each variant.
 */
import type { Family } from "../../platform/mod.ts";
import { failureOf, ifInstalled, type Runner } from "../tools/mod.ts";

/** The places in the kernel where a chain sees packets. */
export type Hook = "prerouting" | "input" | "forward" | "output" | "postrouting";

/** A rule that drops or rejects packets. */
export interface DroppingRule {
  /** The rule without its counters and its comment. */
  readonly text: string;
  /** Whether it has no conditions. */
  readonly isForAll: boolean;
  /** The packets that it has matched; undefined if it does not count them. */
  readonly packets: number | undefined;
  /** Whether it stops all packets of pods, including future ones. */
  readonly isCertain: boolean;
}

/** A chain that is not Sluice's. */
export interface ForeignChain {
  /** `table ip filter`. */
  readonly table: string;
  readonly name: string;
  /** Undefined for a chain to which only other chains lead. */
  hook: Hook | undefined;
  dropsByPolicy: boolean;
  hasRules: boolean;
  /** Whether a rule drops all packets that reach it. */
  dropsByRule: boolean;
  /** Whether a rule accepts the connections to services, or may do so (see `ACCEPTS_TRANSLATED`). */
  acceptsTranslated: boolean;
  /** Rules known to have matched no packet are omitted, except those that are certain to stop packets. */
  readonly dropping: DroppingRule[];
}

/** The chains of Sluice and kube-proxy in tables that they share. */
const OWN_CHAINS = /^KUBE-/;
/** Rules that drop only packets of broken connections. */
const HARMLESS = /\bct ?state (?:\w+,)*invalid\b|--ctstate (?:\w+,)*INVALID\b/i;

/**
 * Rules that accept all connections with a translated destination, or all to some addresses or with a mark, as network plugins
 * add them for pods: as nft prints them, and as iptables-save does.
 */
const ACCEPTS_TRANSLATED = {
  nft: /^(ct status (?:& dnat == )?dnat |ip6? daddr (?:\{[^}]*\}|\S+) |meta mark & \S+ == \S+ )?accept$/,
  save: /^(-m conntrack --ctstat(?:e|us) DNAT |-d \S+ |-m mark --mark \S+ )?-j ACCEPT$/,
};

/** A chain without rules. */
function noRules(): Pick<ForeignChain, "hasRules" | "dropsByRule" | "acceptsTranslated" | "dropping"> {
  return { hasRules: false, dropsByRule: false, acceptsTranslated: false, dropping: [] };
}

/** Notes a rule that accepts. Only some packets may reach one without conditions, unless it is in a chain with a hook. */
function noteAccept(chain: ForeignChain, accepts: RegExpExecArray | null): void {
  if (accepts && (accepts[1] !== undefined || chain.hook !== undefined)) chain.acceptsTranslated = true;
}

/** Notes a rule that drops packets, if it may have dropped any that matter. */
function noteDrop(chain: ForeignChain, text: string, isForAll: boolean, packets: number | undefined): void {
  chain.dropsByRule ||= isForAll;
  const isCertain = chain.hook === "forward" && isForAll && !chain.hasRules;
  if ((packets !== 0 || isCertain) && !HARMLESS.test(text)) chain.dropping.push({ text, isForAll, packets, isCertain });
}

/** Called with what could not be read, and why. */
type OnUnread = (what: string) => void;

/** The chains of other programs. nft also shows the chains of iptables-nft, but not the chains of iptables-legacy. */
export async function foreignChains(
  runner: Runner,
  family: Family,
  onUnread: OnUnread = () => {},
): Promise<readonly ForeignChain[]> {
  const [fromNft, legacy] = await Promise.all([
    ifInstalled(nftChains(runner, family, onUnread)),
    iptablesChains(runner, family, "-legacy", onUnread),
  ]);
  const others = fromNft ?? await iptablesChains(runner, family, "", onUnread) ?? [];
  return [...others, ...legacy ?? []];
}

/** The tables that hold nothing but rules of services. */
const OWN_TABLE = /^(?:sluice(?:-\w+)?|kube-proxy)$/;
const TIMEOUT_MS = 5_000;
/** The number of tables that are listed. */
const MOST_TABLES = 64;

const TABLE_FAMILIES: Readonly<Record<Family, readonly string[]>> = { IPv4: ["ip", "inet"], IPv6: ["ip6", "inet"] };
/** Rules of a table for both families that match the other one only. */
const OF_OTHER_FAMILY: Readonly<Record<Family, RegExp>> = {
  IPv4: /\bip6 |\bicmpv6\b|nfproto ipv6/,
  IPv6: /\bip (?:s|d)addr\b|\bicmp type\b|nfproto ipv4/,
};

/** A rule that ends with a drop or a rejection. */
const DROPS = /(?:^| )(?:drop|reject(?: with .*)?|xt target "(?:DROP|REJECT)")$/;

/** The chains of other programs in nf_tables, including iptables-nft; undefined if nft cannot list them. */
async function nftChains(
  runner: Runner,
  family: Family,
  onUnread: OnUnread,
): Promise<readonly ForeignChain[] | undefined> {
  const tables = new Set<string>();
  let table = "";
  const listed = await runner.run({
    tool: "nft",
    args: ["list", "chains"],
    timeoutMs: TIMEOUT_MS,
    onLine(line) {
      table = /^table (\w+ \S+) \{/.exec(line)?.[1] ?? table;
      const [of = "", name = ""] = table.split(" ");
      if (!line.includes(" hook ") || !TABLE_FAMILIES[family].includes(of) || OWN_TABLE.test(name)) return;
      tables.add(table);
    },
  });
  const failure = failureOf("nft list chains", listed);
  if (failure) {
    // A kernel without nf_tables has none of its chains.
    if (failure.kind !== "unsupported") onUnread(failure.text);
    return undefined;
  }
  const chains: ForeignChain[] = [];
  if (tables.size > MOST_TABLES) onUnread(`of ${tables.size} tables, ${MOST_TABLES} were read`);
  for (const table of [...tables].slice(0, MOST_TABLES)) {
    const reader = createTableReader(table, family);
    // Terse: without the elements of sets.
    const args = ["-t", "list", "table", ...table.split(" ")];
    const result = await runner.run({ tool: "nft", args, timeoutMs: TIMEOUT_MS, onLine: reader.line });
    const failure = failureOf(`nft list table ${table}`, result);
    // A table may be deleted meanwhile.
    if (failure && failure.kind !== "absent") onUnread(failure.text);
    chains.push(...reader.chains());
  }
  return chains;
}

/** Reads the listing of a table. */
function createTableReader(table: string, family: Family) {
  const chains: ForeignChain[] = [];
  let isDormant = false;
  let chain: ForeignChain | undefined;
  return {
    chains: (): readonly ForeignChain[] => isDormant ? [] : chains,
    line(line: string) {
      const text = line.trim(), name = /^chain (\S+) \{/.exec(text)?.[1];
      if (name !== undefined) {
        chain = { table: `table ${table}`, name, hook: undefined, dropsByPolicy: false, ...noRules() };
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
        const rule = text.replace(/ ?\bcomment "[^"]*"/, "");
        const plain = rule.replace(/\bcounter packets \d+ bytes \d+ /, "");
        if (DROPS.test(plain) && !OF_OTHER_FAMILY[family].test(rule)) {
          const packets = /\bcounter packets (\d+) /.exec(rule)?.[1];
          const isForAll = /^(?:drop|reject|xt target)/.test(plain);
          noteDrop(chain, plain, isForAll, packets === undefined ? undefined : Number(packets));
        }
        noteAccept(chain, ACCEPTS_TRANSLATED.nft.exec(plain));
        chain.hasRules = true;
      }
    },
  };
}

/** The chains of other programs in a variant of iptables; undefined if that is not installed. */
async function iptablesChains(
  runner: Runner,
  family: Family,
  variant: "" | "-legacy",
  onUnread: OnUnread,
): Promise<readonly ForeignChain[] | undefined> {
  const program = family === "IPv4" ? "iptables" : "ip6tables";
  const { chains, line } = createSaveReader(program);
  // Lists the tables that are in use, and loads no module for others.
  const tool = `${program}${variant}-save`;
  const result = await ifInstalled(runner.run({ tool, args: ["-c"], timeoutMs: TIMEOUT_MS, onLine: line }));
  const failure = result && failureOf(tool, result);
  if (failure) onUnread(failure.text);
  return result && chains;
}

/** Reads the output of `iptables-save -c`. */
function createSaveReader(program: string) {
  const chains: ForeignChain[] = [];
  const ofTable = new Map<string, ForeignChain>();
  let table = "";
  return {
    chains,
    line(line: string) {
      if (line.startsWith("*")) {
        table = `${program} table ${line.slice(1)}`;
        ofTable.clear();
      } else if (line.startsWith(":")) {
        const [name = "", policy] = line.slice(1).split(" ");
        if (OWN_CHAINS.test(name)) return;
        const hook = policy === "-" ? undefined : name.toLowerCase() as Hook;
        const chain = { table, name, hook, dropsByPolicy: policy === "DROP", ...noRules() };
        ofTable.set(name, chain);
        chains.push(chain);
      } else {
        const [, packets, name = "", rule = ""] = /^\[(\d+):\d+\] -A (\S+) ?(.*)$/.exec(line) ?? [];
        const chain = ofTable.get(name);
        if (chain === undefined) return;
        const plain = rule.replace(/-m comment --comment (?:"[^"]*"|\S+) /, "");
        if (/-j (?:DROP|REJECT)\b/.test(rule)) noteDrop(chain, rule, rule.startsWith("-j "), Number(packets));
        noteAccept(chain, ACCEPTS_TRANSLATED.save.exec(plain));
        chain.hasRules = true;
      }
    },
  };
}
