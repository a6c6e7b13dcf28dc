import type { Family, PacketCounts } from "../../core/model/mod.ts";
import { packetsOf } from "./rule_counts.ts";
import { BASE, type IptablesTools, type Table } from "../xtables/mod.ts";

/**
 * Reads the packet counts of the rules in the kernel, which kube-proxy keeps in nfacct objects. Throws as the tools do.
 */
export async function readPacketCounts(family: Family, tools: IptablesTools): Promise<PacketCounts> {
  const [forwarding, localhost] = await Promise.all([
    rulesOf(tools, "filter", BASE.forward),
    family === "IPv4" ? rulesOf(tools, "nat", BASE.localhostNodePorts) : [],
  ]);
  const isInvalidDrop = (line: string) => line.includes("--ctstate INVALID ") && line.endsWith("-j DROP");
  // Packets for which there is no node port return to the second rule.
  const [seen = 0, returned = 0] = localhost.map(packetsOf);
  return {
    ctStateInvalidDropped: forwarding.filter(isInvalidDrop).reduce((sum, line) => sum + packetsOf(line), 0),
    localhostNodePortsAccepted: Math.max(0, seen - returned),
  };
}

async function rulesOf(tools: IptablesTools, table: Table, chain: string): Promise<string[]> {
  const rules: string[] = [];
  await tools.list(table, chain, (line) => void (line.startsWith("-A ") && rules.push(line)));
  return rules;
}
