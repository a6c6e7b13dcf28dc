import type { BackendOptions } from "../contract/mod.ts";
import { type Layout, removeIptablesTraces } from "../xtables/mod.ts";
import { createDummyInterface } from "./dummy_interface.ts";
import { createSets, type ListedSets } from "./ipset.ts";
import { createVirtualServers } from "./ipvsadm.ts";
import { entryOf, NODE_PORT_SETS } from "./sets.ts";
import { parseServerKey } from "./virtual_servers.ts";

const NO_SETS: ListedSets = { names: new Set(), entries: new Set() };

/**
 * Removes everything that the IPVS modes of Sluice and kube-proxy have in a family: chains, virtual servers, sets and
 * addresses of the dummy interface, and the interface itself with its last address. A virtual server belongs to them if
 * its address is on the dummy interface or its port in a set of node ports. Throws if something cannot be removed.
 * @param stays the layout of another mode that is in effect, whose chains stay
 */
export async function removeIpvsTraces(options: BackendOptions, stays?: Layout): Promise<void> {
  const { family, runner, logger } = options;
  const dummy = createDummyInterface(family, runner), sets = createSets(family, runner);
  const { hasDummy, dummy: addresses } = await dummy.list();
  // A kernel without support for sets has none to remove.
  const listed = hasDummy ? await sets.list() : await sets.list().catch(() => NO_SETS);
  if (!hasDummy && listed.names.size === 0) return;
  await removeIptablesTraces(options, stays);
  const servers = createVirtualServers(family, runner);
  const isOurs = (key: string) => {
    const server = parseServerKey(key);
    return server && (addresses.has(server.address) || isNodePort(server, listed));
  };
  const isNodePort = (
    { protocol, address, port }: NonNullable<ReturnType<typeof parseServerKey>>,
    { entries }: ListedSets,
  ) => {
    const element = protocol === "sctp" ? `${address},sctp:${port}` : String(port);
    return entries.has(entryOf(NODE_PORT_SETS[protocol].all, family, element));
  };
  const own = [...(await servers.list()).keys()].filter(isOurs);
  const failure = own.length === 0
    ? undefined
    : await servers.apply(own.map((server) => ({ does: "delete", server }) as const));
  if (failure !== undefined) throw new Error(failure.text);
  await sets.destroy();
  await dummy.remove();
  logger.info("removed the virtual servers, sets and addresses of ipvs mode", { virtualServers: own.length });
}
