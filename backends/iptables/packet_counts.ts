import type { Family, PacketCounts } from "../../core/model/mod.ts";
import { BASE, type IptablesTools } from "../xtables/mod.ts";

/**
 * Reads the packet counts of the rules in the kernel, which kube-proxy keeps in nfacct objects. Throws as the tools do.
 */
export async function readPacketCounts(family: Family, tools: IptablesTools): Promise<PacketCounts> {
  const [forwarding, localhost] = await Promise.all([
    tools.list("filter", BASE.forward),
    family === "IPv4" ? tools.list("nat", BASE.localhostNodePorts) : [],
  ]);
  const isInvalidDrop = (line: string) => line.includes("--ctstate INVALID ") && line.endsWith("-j DROP");
  // Packets for which there is no node port return to the second rule.
  const [seen = 0, returned = 0] = localhost.filter(isRule).map(packetsOf);
  return {
    ctStateInvalidDropped: forwarding.filter(isInvalidDrop).reduce((sum, line) => sum + packetsOf(line), 0),
    localhostNodePortsAccepted: Math.max(0, seen - returned),
  };
}

function isRule(line: string): boolean {
  return line.startsWith("-A ");
}

/** `-A CHAIN … -c PACKETS BYTES -j TARGET`, as `iptables -v -S` prints it. */
function packetsOf(line: string): number {
  return Number(/ -c (\d+) \d+(?: |$)/.exec(line)?.[1] ?? 0);
}
