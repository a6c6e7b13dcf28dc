import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import { errorText, FAMILIES } from "../../platform/mod.ts";
import type { ModeDescription } from "../contract/mod.ts";
import { type ForeignChain, foreignChains, type Hook } from "../foreign/mod.ts";
import type { Runner } from "../tools/mod.ts";

/** The hooks that a connection to a pod on another interface passes, whoever opens it. */
const HOOKS: readonly (Hook | undefined)[] = ["prerouting", "forward", "postrouting"];

/** Finds chains of other programs that drop new connections to services, with the rule that lets them pass. */
export async function findFirewalls(
  { relay, traffic }: Pick<ModeDescription, "relay" | "traffic">,
  runner: Runner,
): Promise<readonly Finding[]> {
  if (relay === "services" || traffic.by !== "rules") return [];
  const unread = new Set<string>();
  const onUnread = (what: string) => void unread.add(what);
  const read = FAMILIES.map((family) =>
    foreignChains(runner, family, onUnread).catch((error) => {
      onUnread(errorText(error));
      return [];
    })
  );
  const chains = (await Promise.all(read)).flat();
  // A rule for both families is read twice.
  const found = new Map(chains.filter((chain) => isInTheWay(chain, chains)).map((chain) => [ruleFor(chain), chain]));
  const inTheWay = Array.from(found, ([rule, { table, name, hook }]) =>
    problemFinding(
      "firewall",
      "connections-dropped-by-others",
      `chain ${name} of ${table} (hook ${hook}) drops new connections to services, unless its own rules accept them`,
      `run ${rule}, and add it to the configuration of the program that has made the chain`,
    ));
  if (unread.size === 0) return inTheWay;
  return [...inTheWay, problemFinding("firewall", "firewalls-unread", [...unread].join("; "))];
}

/** Whether a chain drops what no rule accepts, and neither it nor a chain to which it may lead accepts connections to services. */
function isInTheWay(chain: ForeignChain, all: readonly ForeignChain[]): boolean {
  if (!HOOKS.includes(chain.hook) || !chain.dropsByPolicy && !chain.dropsByRule) return false;
  const accepts = ({ table, hook, acceptsTranslated }: ForeignChain) =>
    acceptsTranslated && table === chain.table && (hook === undefined || hook === chain.hook);
  return !all.some(accepts);
}

/** The command that adds a rule at the head of a chain, which accepts connections with a translated destination. */
function ruleFor({ table, name }: ForeignChain): string {
  const [, program, of] = /^(ip6?tables) table (\S+)$/.exec(table) ?? [];
  const [, family, ofNft] = /^table (ip6?) (\S+)$/.exec(table) ?? [];
  // iptables-nft has the same tables and chains as iptables-legacy.
  const tool = program ?? (/^[A-Z]+$/.test(name) && family && (family === "ip" ? "iptables" : "ip6tables"));
  if (!tool) return `nft insert rule ${table.slice("table ".length)} ${name} ct status dnat accept`;
  return `${tool} -t ${of ?? ofNft} -I ${name} -m conntrack --ctstate DNAT -j ACCEPT`;
}
