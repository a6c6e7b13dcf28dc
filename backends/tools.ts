import type { Family, ProxyMode } from "../core/model.ts";

const OF_EVERY_MODE = ["conntrack", "sysctl"];

const BY_MODE: Readonly<Record<ProxyMode, Readonly<Record<Family, readonly string[]>>>> = {
  iptables: {
    IPv4: ["iptables", "iptables-restore", "iptables-save"],
    IPv6: ["ip6tables", "ip6tables-restore", "ip6tables-save"],
  },
  nftables: { IPv4: ["nft"], IPv6: ["nft"] },
  ipvs: {
    IPv4: ["ip", "ipset", "ipvsadm", "iptables-restore", "iptables-save"],
    IPv6: ["ip", "ipset", "ipvsadm", "ip6tables-restore", "ip6tables-save"],
  },
};

/** The names of the tools that the backend of a mode may run; on a given host some may not be installed. */
export function toolsOf(mode: ProxyMode, family: Family): readonly string[] {
  return [...BY_MODE[mode][family], ...OF_EVERY_MODE];
}
