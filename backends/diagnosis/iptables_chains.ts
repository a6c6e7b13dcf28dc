import type { Family } from "../../core/model/mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";
import { type DroppingRule, type ForeignChain, type Hook, isCertain, isSuspect, OWN_CHAINS } from "./chains.ts";

const TIMEOUT_MS = 5_000;
const PREFIX: Readonly<Record<Family, string>> = { IPv4: "iptables", IPv6: "ip6tables" };

/** The variants of iptables-save: the default one, or that of iptables-legacy, which nft does not show. */
export type SaveVariant = "default" | "legacy";

/** The chains of other programs in iptables; undefined if that variant is not installed. */
export async function iptablesChains(
  runner: Runner,
  family: Family,
  variant: SaveVariant,
): Promise<readonly ForeignChain[] | undefined> {
  const reader = createReader(PREFIX[family]);
  const tool = `${PREFIX[family]}${variant === "legacy" ? "-legacy" : ""}-save`;
  try {
    // Lists the tables that are in use, and loads no module for others.
    await runner.run({ tool, args: ["-c"], timeoutMs: TIMEOUT_MS, onLine: reader.line });
    return reader.chains();
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    return undefined;
  }
}

type Chain = { -readonly [Field in keyof ForeignChain]: ForeignChain[Field] } & { dropping: DroppingRule[] };

/** Reads the output of `iptables-save -c`. */
function createReader(program: string) {
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
          const found = { text: rule, isForAll: rule.startsWith("-j "), isFirst: !chain.hasRules };
          if (packets !== "0" || isCertain(chain.hook, found)) chain.dropping.push(found);
        }
        chain.hasRules = true;
      }
    },
  };
}
