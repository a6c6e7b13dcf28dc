import {
  type Family,
  type FamilySettings,
  frontendsOf,
  type Protocol,
  PROTOCOL_NUMBERS,
  PROTOCOLS,
  type ServicePort,
} from "../../core/model/mod.ts";
import { hostPrefix } from "../../platform/mod.ts";
import {
  acceptRules,
  BASE,
  comment,
  createFixedChains,
  jump,
  type Layout,
  localMatch,
  LOOPBACK,
  markRules,
  martianRules,
  masquerade,
  masqueradeRules,
  type WantedChains,
  withMartians,
} from "../xtables/mod.ts";
import type { Desired } from "./desired.ts";
import { NODE_PORT_SETS, type SetKind, setName, SETS } from "./sets.ts";

/** The chains that only IPVS mode has, by kube-proxy's names. */
const CHAIN = {
  nodePort: "KUBE-NODE-PORT",
  loadBalancer: "KUBE-LOAD-BALANCER",
  sourceRanges: "KUBE-SOURCE-RANGES-FIREWALL",
  filter: "KUBE-IPVS-FILTER",
  outFilter: "KUBE-IPVS-OUT-FILTER",
} as const;

/** The chains and jumps that both families have. They are kube-proxy's, and do not depend on the services. */
const COMMON_LAYOUT: Layout = {
  jumps: [
    jump("filter", "FORWARD", "", "kubernetes forwarding rules", BASE.forward),
    jump("filter", "INPUT", "", "kubernetes health check rules", CHAIN.nodePort),
    jump("filter", "INPUT", "", "kube-proxy firewall rules", BASE.proxyFirewall),
    jump("filter", "FORWARD", "", "kube-proxy firewall rules", BASE.proxyFirewall),
    jump("filter", "INPUT", "", "kubernetes ipvs access filter", CHAIN.filter),
    jump("filter", "OUTPUT", "", "kubernetes ipvs access filter", CHAIN.outFilter),
    jump("nat", "OUTPUT", "", "kubernetes service portals", BASE.services),
    jump("nat", "PREROUTING", "", "kubernetes service portals", BASE.services),
    jump("nat", "POSTROUTING", "", "kubernetes postrouting rules", BASE.postrouting),
  ],
  baseChains: {
    mangle: [],
    filter: [BASE.forward, CHAIN.nodePort, BASE.proxyFirewall, CHAIN.sourceRanges, CHAIN.filter, CHAIN.outFilter],
    nat: [BASE.services, BASE.postrouting, CHAIN.nodePort, CHAIN.loadBalancer, BASE.markMasquerade],
  },
  isServiceChain: () => false,
};

/** The layout of IPVS mode, by family. */
export const IPVS_LAYOUTS: Readonly<Record<Family, Layout>> = {
  IPv4: withMartians(COMMON_LAYOUT),
  IPv6: COMMON_LAYOUT,
};

/** The part that stays while connections drain: programs on this node must not be reached at service addresses. */
export const DRAIN_LAYOUT: Layout = {
  jumps: COMMON_LAYOUT.jumps.filter(({ rule }) => rule.endsWith(` ${CHAIN.filter}`)),
  baseChains: { mangle: [], filter: [CHAIN.filter], nat: [] },
  isServiceChain: () => false,
};

/** Properties of the host that the rules depend on. */
interface RulesOptions {
  readonly family: Family;
  /** Whether MASQUERADE can choose ports at random. */
  readonly randomFully: boolean;
}

/** The rules of IPVS mode, which masquerade and drop; the sets hold the addresses and ports. */
export function createRules(desired: Pick<Desired, "settings" | "closedToNode">, options: RulesOptions): WantedChains {
  return createFixedChains(
    IPVS_LAYOUTS[options.family].baseChains,
    (table, chain) => {
      const martians = martianRules(table, chain);
      if (martians) return martians;
      const settings = desired.settings();
      if (!settings) return undefined;
      if (table === "nat") return natRules(chain, settings, options);
      return filterRules(chain, settings, options.family, desired.closedToNode());
    },
    // A chain is created before chains that jump to it.
    (chain) => chain === BASE.markMasquerade ? 0 : REFERRED_TO.includes(chain) ? 1 : 2,
  );
}

const REFERRED_TO: readonly string[] = [CHAIN.nodePort, CHAIN.loadBalancer, CHAIN.sourceRanges];

/** A match of packets in a set; `sides` names the parts of the packet to look up: `dst,dst`. */
function inSet(kind: SetKind, family: Family, sides: string, commented = true): string {
  return `${commented ? comment(SETS[kind].comment) : ""}-m set --match-set ${setName(kind, family)} ${sides} `;
}

function natRules(chain: string, settings: FamilySettings, { family, randomFully }: RulesOptions): string[] {
  switch (chain) {
    case BASE.services:
      return [
        `-s ${LOOPBACK[family]} -j RETURN`,
        `${inSet("loadBalancer", family, "dst,dst")}-j ${CHAIN.loadBalancer}`,
        clusterIPMasquerade(settings, family),
        `${inSet("externalIP", family, "dst,dst")}-j ${BASE.markMasquerade}`,
        // Keeps rules of other programs from redirecting these packets, and their ports from matching node ports.
        ...(["clusterIP", "externalIP", "externalIPLocal", "loadBalancer"] as const).map((kind) =>
          `${inSet(kind, family, "dst,dst", false)}-j ACCEPT`
        ),
        `-m addrtype --dst-type LOCAL -j ${CHAIN.nodePort}`,
      ];
    case CHAIN.loadBalancer:
      return [`${inSet("loadBalancerLocal", family, "dst,dst")}-j RETURN`, `-j ${BASE.markMasquerade}`];
    case CHAIN.nodePort:
      return PROTOCOLS.flatMap((protocol) => nodePortRules(protocol, family));
    case BASE.postrouting:
      return [
        inSet("loopBack", family, "dst,dst,src") + masquerade({ randomFully }),
        ...masqueradeRules(settings, { randomFully }),
      ];
    case BASE.markMasquerade:
      return markRules(settings);
    default:
      return [];
  }
}

/**
 * Masquerades traffic to a cluster IP that does not come from a pod of this node: it may come from another host, and replies
 * must return through this node. If local pods cannot be recognized, only traffic of the node itself is masqueraded: its source
 * is the cluster IP, to which no other host can reply. Both are kube-proxy's rules.
 */
function clusterIPMasquerade(settings: FamilySettings, family: Family): string {
  const target = `-j ${BASE.markMasquerade}`;
  if (settings.masqueradeAll) return inSet("clusterIP", family, "dst,dst") + target;
  const other = localMatch(settings.localTraffic, false);
  if (!other) return inSet("clusterIP", family, "src,dst") + target;
  return other.source + other.inInterface + inSet("clusterIP", family, "dst,dst") + target;
}

function nodePortRules(protocol: Protocol, family: Family): string[] {
  const { all, local } = NODE_PORT_SETS[protocol];
  const sides = protocol === "sctp" ? "dst,dst" : "dst";
  return [
    `-p ${protocol} ${inSet(local, family, sides)}-j RETURN`,
    `-p ${protocol} ${inSet(all, family, sides)}-j ${BASE.markMasquerade}`,
  ];
}

function filterRules(
  chain: string,
  settings: FamilySettings,
  family: Family,
  closedToNode: Iterable<ServicePort>,
): string[] {
  switch (chain) {
    case BASE.forward:
      return acceptRules(settings);
    case CHAIN.nodePort:
      return [`${inSet("healthCheckNodePort", family, "dst")}-j ACCEPT`];
    case BASE.proxyFirewall:
      return [`${inSet("loadBalancerFirewall", family, "dst,dst")}-j ${CHAIN.sourceRanges}`];
    case CHAIN.sourceRanges:
      return [
        `${inSet("loadBalancerSourceRange", family, "dst,dst,src")}-j RETURN`,
        `${inSet("loadBalancerSourceIP", family, "dst,dst,src")}-j RETURN`,
        "-j DROP",
      ];
    case CHAIN.filter:
      return accessRules(family);
    case CHAIN.outFilter:
      return loadBalancerFrontends(closedToNode).map(closedRule);
    default:
      return [];
  }
}

/** Keeps programs that listen on the node from being reached through service addresses (kubernetes issue 72236). */
function accessRules(family: Family): string[] {
  const refusal = `-j REJECT --reject-with ${family === "IPv4" ? "icmp" : "icmp6"}-port-unreachable`;
  return [
    ...(["loadBalancer", "clusterIP", "externalIP", "externalIPLocal"] as const).map((kind) =>
      `${inSet(kind, family, "dst,dst", false)}-j RETURN`
    ),
    `${inSet("healthCheckNodePort", family, "dst", false)}-j RETURN`,
    `-m conntrack --ctstate NEW ${inSet("boundAddresses", family, "dst", false)}${refusal}`,
  ];
}

/** The load balancer frontends of service ports, as `address protocol port`, sorted. */
export function loadBalancerFrontends(servicePorts: Iterable<ServicePort>): readonly string[] {
  return [...servicePorts].flatMap(frontendsOf).filter(({ kind }) => kind === "loadBalancerIP")
    .map(({ address, protocol, port }) => `${address} ${protocol} ${port}`).sort();
}

/**
 * Drops traffic of the node itself to a load balancer address. Its source is that address, and IPVS handles it before
 * any rule can check the source ranges (kubernetes issue 119656).
 */
function closedRule(frontend: string): string {
  const [address = "", protocol = "", port = ""] = frontend.split(" ");
  const virtual = `-m ipvs --vproto ${PROTOCOL_NUMBERS[protocol as Protocol]} --vaddr ${address} --vport ${port}`;
  return `-s ${hostPrefix(address)} ${virtual} -j DROP`;
}
