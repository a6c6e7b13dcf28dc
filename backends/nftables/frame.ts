import type { FamilySettings } from "../../core/model/mod.ts";
import { prefixText } from "../../platform/mod.ts";
import { countAttempts, countFailure, countPackets, trafficChains } from "./counters.ts";
import { type BaseChain, clearMark, type Dialect, frontendKey, localMatch, setMark, unmarked } from "./table.ts";
import { chainText } from "./transaction.ts";

/** The fixed chain that is created last: if it exists, so do the others. */
export const LAST_BASE_CHAIN = "nat-output";

/**
 * The fixed chains, in an order in which each refers only to earlier ones. Those with hooks come last: they put all
 * others into effect.
 *
 * The hooks are kube-proxy's. Frontends without endpoints are rejected after DNAT, so that the shortcuts of policy
 * Local come first; source ranges are checked before DNAT, while the packet still has its original destination. As in
 * kube-proxy's nftables mode, no chain accepts packets, since another table could still drop them, and none but that of
 * martians drops packets that conntrack classifies as INVALID, since replies of their connection may take another route.
 */
export function baseChains(settings: FamilySettings, dialect: Dialect): readonly BaseChain[] {
  const { ip, anyAddress } = dialect;
  const key = frontendKey(dialect, false), nodePortKey = frontendKey(dialect, true);
  const inner = (name: string, rules: readonly string[]): BaseChain => ({ name, hook: undefined, rules });
  const hooked = (name: string, hook: string, rules: readonly string[]): BaseChain => ({ name, hook, rules });
  const count = trafficChains(settings, dialect);
  /** A chain through which packets reach endpoints, and answers come back, with its first rules and those for new packets. */
  const passed = (at: "input" | "forward" | "output", first: readonly string[], others: readonly string[]) => {
    const name = `filter-${at}`, hook = `type filter hook ${at} priority filter; policy accept;`;
    const counted = countPackets(settings, at), ofNew = [...counted.ofNew, "jump services-check", ...others];
    const ofAll = [...first, ...counted.ofAll];
    if (!settings.countsAttempts) {
      return [hooked(name, hook, [...ofAll, ...ofNew.map((rule) => `ct state new ${rule}`)])];
    }
    const { attempts, answers } = countAttempts(dialect);
    return [
      inner(`${name}-new`, [attempts, ...ofNew]),
      hooked(name, hook, [...ofAll, `ct state new goto ${name}-new`, answers]),
    ];
  };
  // No other host and no pod gets at what is for this node alone (CVE-2020-8558): as it arrives, before translation, and where
  // it enters the node, since a source route ends there, whose packets conntrack may call INVALID (their checksum is for its end).
  // See backends/xtables/martians.ts.
  const martian = (verdict: string) => ip === "ip" ? [`ip daddr ${dialect.loopback} iifname != "lo" ${verdict}`] : [];
  // kube-proxy's cluster-ips-check: packets to a service already have another destination here, after DNAT.
  const checkClusterIPs = [
    `${ip} daddr @cluster-ips reject`,
    ...settings.serviceRanges.map((range) => `${ip} daddr ${prefixText(range)} drop`),
  ];
  return [
    inner("nodeports", [`${nodePortKey} vmap @services`]),
    inner("services", [
      ...masqueradeClusterIPs(settings, dialect),
      // A packet may be addressed to the unspecified address, which stands for the node's in the map.
      `${ip} daddr != ${anyAddress} ${key} vmap @services`,
      ...nodePortEntries(settings, dialect).map((match) => `${match}goto nodeports`),
    ]),
    inner("nodeports-check", refusals(settings, dialect, true)),
    inner("services-check", refusals(settings, dialect, false)),
    ...ip === "ip"
      ? [
        inner("martians", [
          "ct state invalid,untracked drop",
          `ct state new ct reply ip saddr != ${dialect.loopback} drop`,
        ]),
      ]
      : [],
    inner("firewall-check", [`${key} vmap @restricted`]),
    ...count.inner,
    ...count.hooked,
    hooked("filter-prerouting", "type filter hook prerouting priority dstnat - 10; policy accept;", [
      ...martian("drop"),
      "ct state new jump firewall-check",
    ]),
    hooked("filter-output-first", "type filter hook output priority -110; policy accept;", [
      "ct state new jump firewall-check",
    ]),
    ...passed(
      "input",
      martian("jump martians"),
      nodePortEntries(settings, dialect).map((match) => `${match}goto nodeports-check`),
    ),
    ...passed("forward", [], checkClusterIPs),
    ...passed("output", [], checkClusterIPs),
    hooked("nat-postrouting", "type nat hook postrouting priority srcnat; policy accept;", [
      `ct status dnat ${ip} saddr . ${ip} daddr @hairpins masquerade fully-random`,
      `${unmarked(settings)} return`,
      clearMark(settings),
      "masquerade fully-random",
    ]),
    hooked("nat-prerouting", "type nat hook prerouting priority dstnat; policy accept;", ["jump services"]),
    hooked(LAST_BASE_CHAIN, "type nat hook output priority -100; policy accept;", ["jump services"]),
  ];
}

/** The rules that refuse packets to frontends without usable endpoints. */
function refusals(settings: FamilySettings, dialect: Dialect, nodePort: boolean): string[] {
  const key = frontendKey(dialect, nodePort);
  return [
    `${key} @refused ${countFailure(settings, "refused", dialect, nodePort)}reject`,
    `${key} @dropped ${countFailure(settings, "dropped", dialect, nodePort)}drop`,
  ];
}

/** The name of the chain of refused node ports. */
export const NODE_PORT_REFUSALS = "nodeports-refused";

/**
 * The text of the chain that refuses packets to node ports without usable endpoints whose services limit them to some addresses.
 * Their entries in the map of restricted frontends have the unspecified address, and lead to a chain that matches the addresses.
 * It exists only while there are such node ports.
 */
export function nodePortRefusals(settings: FamilySettings, dialect: Dialect): string {
  const key = frontendKey(dialect, true);
  const rules = nodePortEntries(settings, dialect).map((match) => `ct state new ${match}${key} vmap @restricted`);
  return chainText("type filter hook input priority filter; policy accept;", rules);
}

/**
 * Marks traffic to cluster IPs that does not come from a pod of this node: it may have been routed here from elsewhere, and
 * replies must return through this node. One rule before the dispatch serves all services, so that traffic that is not
 * masqueraded can share their chains.
 */
function masqueradeClusterIPs(settings: FamilySettings, dialect: Dialect): string[] {
  const toClusterIP = `${dialect.ip} daddr @cluster-ips ${setMark(settings)}`;
  if (settings.masqueradeAll) return [toClusterIP];
  const other = localMatch(settings.localTraffic, false, dialect);
  return other === undefined ? [] : [other + toClusterIP];
}

/** Matches for this node's addresses that serve node ports; new and removed addresses need no change of rules. */
function nodePortEntries({ nodePortPrefixes }: FamilySettings, { ip, loopback }: Dialect): string[] {
  const all = `${ip} daddr != ${loopback} fib daddr type local `;
  if (!nodePortPrefixes || nodePortPrefixes.some((prefix) => prefix.endsWith("/0"))) return [all];
  return nodePortPrefixes.map(prefixText).filter((prefix) => prefix !== "::1" && !prefix.startsWith("127."))
    .map((prefix) => `${ip} daddr ${prefix} fib daddr type local `);
}
