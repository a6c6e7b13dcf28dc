import type { Family } from "../../core/model/mod.ts";
import { entryOf, type ListedSets, NODE_PORT_SETS } from "./sets.ts";
import { parseServerKey, type ServerKey } from "./virtual_servers.ts";

/**
 * Whether a virtual server is Sluice's or kube-proxy's: its address is on the dummy interface, or its port in a set of node
 * ports. Others belong to another program (`excludeCIDRs`).
 */
export function isProxys(
  key: ServerKey,
  family: Family,
  addresses: { has(address: string): boolean },
  { entries }: Pick<ListedSets, "entries">,
): boolean {
  const server = parseServerKey(key);
  if (server === undefined) return false;
  const { protocol, address, port } = server;
  const element = protocol === "sctp" ? `${address},sctp:${port}` : String(port);
  return addresses.has(address) || entries.has(entryOf(NODE_PORT_SETS[protocol].all, family, element));
}
