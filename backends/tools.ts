import type { Family, ProxyMode } from "../core/model.ts";

/** Each mode removes what the others have left behind. */
const OF_EVERY_MODE = ["conntrack", "ip", "ipset", "ipvsadm", "sysctl"];

const IPTABLES_AND_NFT: Readonly<Record<Family, readonly string[]>> = {
  IPv4: ["iptables", "iptables-restore", "iptables-save", "nft"],
  IPv6: ["ip6tables", "ip6tables-restore", "ip6tables-save", "nft"],
};

const BY_MODE: Readonly<Record<ProxyMode, readonly string[]>> = {
  iptables: [],
  nftables: [],
  ipvs: ["modprobe"],
};

/** The names of the tools that the backend of a mode may run; on a given host some may not be installed. */
export function toolsOf(mode: ProxyMode, family: Family): readonly string[] {
  return [...BY_MODE[mode], ...IPTABLES_AND_NFT[family], ...OF_EVERY_MODE];
}
