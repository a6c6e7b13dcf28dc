import type { Sysctl } from "../host/mod.ts";
import { BASE } from "./chain_names.ts";
import { jump, type Layout } from "./layout.ts";
import { comment, LOOPBACK } from "./matches.ts";

/**
 * Node ports on 127.0.0.1 need a kernel that routes loopback addresses (route_localnet), and such a kernel also delivers
 * what others send to 127.0.0.1: programs that listen there for this node alone would be open to every pod and every
 * neighbour (CVE-2020-8558, kubernetes issue 90259). So martians, packets to loopback addresses from other ones, are
 * dropped before that setting is made. The kubelet and kube-proxy have the same rule in KUBE-FIREWALL. Sluice has it in
 * a chain of its own, whatever they do.
 *
 * The rule is there in iptables mode whatever the settings are, and stays when another mode takes over: the kernel's
 * setting outlives both. Only a cleanup removes it.
 */
export const MARTIAN_RULES: readonly string[] = [
  `! -s ${LOOPBACK.IPv4} -d ${LOOPBACK.IPv4} ${comment("block incoming localnet connections")}` +
  "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
];

/** Has the kernel route loopback addresses; not to be set before martians are dropped. */
export const ROUTE_LOOPBACK: Sysctl = { name: "net.ipv4.conf.all.route_localnet", value: 1 };

const JUMP = jump("filter", "INPUT", `-d ${LOOPBACK.IPv4} `, "block incoming localnet connections", BASE.martians);

/** A layout with the chain of martians, ahead of all else that is done with a packet to this node. */
export function withMartians({ jumps, baseChains, isServiceChain }: Layout): Layout {
  const { filter, nat } = baseChains;
  return { jumps: [...jumps, JUMP], baseChains: { filter: [...filter, BASE.martians], nat }, isServiceChain };
}
