import type { Family, FamilySettings } from "../../core/model/mod.ts";
import { hostPrefix, prefixContains } from "../../platform/mod.ts";
import { BASE, isServiceChain, type Jump, jump, type Layout, type Table } from "./chains.ts";
import { martianRules, withMartians } from "./martians.ts";
import { comment, LOOPBACK, marked } from "./matches.ts";

/** The match, after DNAT, of hairpin traffic: from an endpoint to itself through its service. */
type HairpinMatch =
  /** One rule compares source and destination (xt_bpf). */
  | "compare"
  /** One rule per endpoint on this node, for kernels without xt_bpf. */
  | "per-endpoint";

/** Features of the host that the base chains depend on. */
export interface BaseOptions {
  readonly family: Family;
  readonly hairpin: HairpinMatch;
  /** Whether MASQUERADE can choose ports at random, which avoids collisions under load. */
  readonly randomFully: boolean;
  /** Whether the kernel already accepts out-of-window TCP packets as valid, regardless of the settings. */
  readonly tcpLiberal: () => boolean;
}

const NEW = "-m conntrack --ctstate NEW ";

/** The jumps from the built-in chains, as in kube-proxy. Each is inserted at the head, so the last one comes first. */
const JUMPS: readonly Jump[] = [
  jump("filter", "INPUT", NEW, "kubernetes externally-visible service portals", BASE.externalServices),
  jump("filter", "FORWARD", NEW, "kubernetes externally-visible service portals", BASE.externalServices),
  jump("filter", "INPUT", "", "kubernetes health check service ports", BASE.nodePorts),
  jump("filter", "FORWARD", NEW, "kubernetes service portals", BASE.services),
  jump("filter", "OUTPUT", NEW, "kubernetes service portals", BASE.services),
  jump("filter", "FORWARD", "", "kubernetes forwarding rules", BASE.forward),
  jump("filter", "INPUT", NEW, "kubernetes load balancer firewall", BASE.proxyFirewall),
  jump("filter", "OUTPUT", NEW, "kubernetes load balancer firewall", BASE.proxyFirewall),
  jump("filter", "FORWARD", NEW, "kubernetes load balancer firewall", BASE.proxyFirewall),
  jump("nat", "OUTPUT", "", "kubernetes service portals", BASE.services),
  jump("nat", "PREROUTING", "", "kubernetes service portals", BASE.services),
  jump("nat", "POSTROUTING", "", "kubernetes postrouting rules", BASE.postrouting),
];

/** The chains that exist in each table even without services. */
const BASE_CHAINS: Readonly<Record<Table, readonly string[]>> = {
  mangle: [],
  filter: [
    BASE.services,
    BASE.externalServices,
    BASE.externalNodePorts,
    BASE.nodePorts,
    BASE.proxyFirewall,
    BASE.forward,
  ],
  nat: [BASE.services, BASE.nodePorts, BASE.localhostNodePorts, BASE.postrouting, BASE.markMasquerade],
};

/** The layout of iptables mode, by family. */
export const IPTABLES_LAYOUTS: Readonly<Record<Family, Layout>> = {
  IPv4: withMartians({ jumps: JUMPS, baseChains: BASE_CHAINS, isServiceChain }),
  IPv6: { jumps: JUMPS, baseChains: BASE_CHAINS, isServiceChain },
};

/** The layout of userspace mode: the layout of iptables mode and the chain that protects the relay's ports. */
export const USERSPACE_LAYOUTS: Readonly<Record<Family, Layout>> = {
  IPv4: withRelayed(IPTABLES_LAYOUTS.IPv4),
  IPv6: withRelayed(IPTABLES_LAYOUTS.IPv6),
};

function withRelayed(layout: Layout): Layout {
  const { baseChains } = layout;
  return { ...layout, baseChains: { ...baseChains, filter: [...baseChains.filter, BASE.relayed] } };
}

/**
 * The fixed rules of a base chain, which follow the rules of a dispatch tree that starts in the chain.
 * @param hairpinAddresses the sorted addresses of endpoints on this node, for matching hairpin traffic by endpoint
 */
export function baseRules(
  table: Table,
  chain: string,
  settings: FamilySettings,
  options: BaseOptions,
  hairpinAddresses: readonly string[],
): readonly string[] {
  const martians = martianRules(table, chain);
  if (martians) return martians;
  if (table === "filter") {
    if (chain === BASE.forward) return forwardRules(settings, options);
    if (chain === BASE.relayed) return RELAYED_RULES;
    if (chain === BASE.externalServices) return [`-m addrtype --dst-type LOCAL -j ${BASE.externalNodePorts}`];
    return [];
  }
  switch (chain) {
    case BASE.services:
      return nodePortEntries(settings, options.family);
    case BASE.localhostNodePorts:
      return localhostRules(settings);
    case BASE.postrouting:
      return [...hairpinRules(options, hairpinAddresses), ...masqueradeRules(settings, options)];
    case BASE.markMasquerade:
      return markRules(settings);
    default:
      return [];
  }
}

/** The relay listens on all addresses, but only packets whose destination the rules have rewritten may reach it. */
const RELAYED_RULES: readonly string[] = ["-m conntrack --ctstate DNAT -j ACCEPT", "-j DROP"];

/** The target of a rule that masquerades. */
export function masquerade(options: Pick<BaseOptions, "randomFully">): string {
  return `-j MASQUERADE${options.randomFully ? " --random-fully" : ""}`;
}

/** The last rules of KUBE-POSTROUTING: packets with the mark are masqueraded. */
export function masqueradeRules(settings: FamilySettings, options: Pick<BaseOptions, "randomFully">): string[] {
  const mark = settings.masqueradeMark;
  return [
    `${marked(mark, false)}-j RETURN`,
    // Clear the mark, so that a packet that passes again (a tunnel) is not masqueraded twice.
    `-j MARK --set-xmark 0x${mark.toString(16)}/0x0`,
    `${comment("kubernetes service traffic requiring SNAT")}${masquerade(options)}`,
  ];
}

/** The rules of KUBE-MARK-MASQ. */
export function markRules({ masqueradeMark }: FamilySettings): string[] {
  const hex = `0x${masqueradeMark.toString(16)}`;
  return [`-j MARK --set-xmark ${hex}/${hex}`];
}

function forwardRules(settings: FamilySettings, { tcpLiberal }: BaseOptions): string[] {
  return [
    // An INVALID packet would be forwarded untranslated, and reset the connection (kubernetes issue 74839).
    ...(settings.conntrackTcpLiberal || tcpLiberal() ? [] : ["-m conntrack --ctstate INVALID -j DROP"]),
    ...acceptRules(settings),
  ];
}

/** The rules by which KUBE-FORWARD accepts packets, even if the host forwards nothing by default. */
export function acceptRules(settings: FamilySettings): string[] {
  return [
    `${comment("kubernetes forwarding rules")}${marked(settings.masqueradeMark, true)}-j ACCEPT`,
    `${comment("kubernetes forwarding conntrack rule")}-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
  ];
}

/** The rules for node ports at this node's addresses; new and removed addresses need no change of rules. */
function nodePortEntries(settings: FamilySettings, family: Family): string[] {
  const lastRule = comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain");
  const local = `-m addrtype --dst-type LOCAL -j ${BASE.nodePorts}`;
  const everywhere = `! -d ${LOOPBACK[family]} ${lastRule}${local}`;
  const atLocalhost = localhostPrefixes(settings, family).map((prefix) =>
    `-d ${prefix} ${comment(AT_LOCALHOST)}-m addrtype --dst-type LOCAL -j ${BASE.localhostNodePorts}`
  );
  if (!settings.nodePortPrefixes) return [...atLocalhost, everywhere];
  const rules = [];
  for (const prefix of settings.nodePortPrefixes) {
    if (prefix.endsWith("/0")) return [...atLocalhost, everywhere];
    if (!isLoopback(prefix)) rules.push(`-d ${prefix} ${lastRule}${local}`);
  }
  return [...atLocalhost, ...rules];
}

/** The prefixes of loopback addresses that serve node ports. */
function localhostPrefixes({ localhostNodePorts, nodePortPrefixes }: FamilySettings, family: Family): string[] {
  if (!localhostNodePorts) return [];
  if (!nodePortPrefixes || nodePortPrefixes.some((prefix) => prefix.endsWith("/0"))) return [LOOPBACK[family]];
  const localhost = family === "IPv4" ? "127.0.0.1" : "::1";
  // Every address of 127.0.0.0/8 is local, but a prefix selects addresses of interfaces (kube-proxy's GetNodeIPs).
  const served = nodePortPrefixes.flatMap((prefix) =>
    prefixContains(prefix, localhost) ? hostPrefix(localhost) : isLoopback(prefix) ? prefix : []
  );
  return [...new Set(served)];
}

const AT_LOCALHOST = "kubernetes service nodeports at localhost";

/** The first rule counts packets to all ports, the second one packets to ports that are not a node port. */
function localhostRules(settings: FamilySettings): string[] {
  if (!settings.localhostNodePorts) return [];
  return [`${comment(AT_LOCALHOST)}-j ${BASE.nodePorts}`, comment(`${AT_LOCALHOST}: there is none`).trimEnd()];
}

function isLoopback(prefix: string): boolean {
  return prefix.startsWith("127.") || prefix === LOOPBACK.IPv6;
}

/** A classic BPF program that matches equal source and destination addresses, word by word. */
function equalAddresses(family: Family): string {
  const source = family === "IPv4" ? 12 : 8;
  const words = family === "IPv4" ? 1 : 4;
  const perWord = 4;
  const instructions: string[] = [];
  for (let word = 0; word < words; word++) {
    const toMismatch = (words - 1 - word) * perWord + 1;
    const at = source + 4 * word;
    instructions.push(`32 0 0 ${at}`, "7 0 0 0", `32 0 0 ${at + 4 * words}`, `29 0 ${toMismatch} 0`);
  }
  instructions.push("6 0 0 1", "6 0 0 0");
  return `${instructions.length},${instructions.join(",")}`;
}

/** The matches for hairpin traffic of any endpoint; also used to probe the kernel for xt_bpf. */
export function compareRule(family: Family): string {
  return `-m conntrack --ctstate DNAT -m bpf --bytecode "${equalAddresses(family)}" `;
}

function hairpinRules(options: BaseOptions, addresses: readonly string[]): string[] {
  if (options.hairpin === "compare") return [compareRule(options.family) + masquerade(options)];
  return addresses.map((address) =>
    `-s ${hostPrefix(address)} -d ${hostPrefix(address)} -m conntrack --ctstate DNAT ${masquerade(options)}`
  );
}
