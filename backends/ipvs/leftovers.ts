import type { BackendOptions } from "../contract/mod.ts";
import { ToolMissingError } from "../tools/mod.ts";
import { type Layout, removeIptablesTraces } from "../xtables/mod.ts";
import { createDummyInterface, createHeldAddresses, type DummyInterface, type HeldAddresses } from "./addresses.ts";
import { createSets, entryOf, type ListedSets, NODE_PORT_SETS, type Sets } from "./sets.ts";
import {
  createVirtualServers,
  type ListedServer,
  parseServerKey,
  type ServerKey,
  type VirtualServers,
} from "./virtual_servers.ts";

/** Everything that the IPVS modes of Sluice and kube-proxy have in a family, apart from chains. */
export interface Leftovers {
  /** The virtual servers whose address is a service's, or whose port is in a set of node ports. */
  readonly own: ReadonlyMap<ServerKey, ListedServer>;
  /** The number of virtual servers of other programs. */
  readonly others: number;
  /** The addresses of the dummy interface. */
  readonly bound: ReadonlySet<string>;
  /** The entries of the sets. */
  readonly entries: ListedSets["entries"];
  /** The addresses held after a takeover. */
  readonly heldAddresses: ReadonlySet<string>;
  readonly nodeAddresses: readonly string[];
  readonly servers: VirtualServers;
  readonly sets: Sets;
  readonly dummy: DummyInterface;
  readonly held: HeldAddresses;
}

/**
 * Finds what the mode has in a family; undefined if that is nothing. Throws if the kernel cannot be read; a missing ipvsadm or
 * ipset is an error that says what stays.
 */
export async function findLeftovers(
  options: Pick<BackendOptions, "family" | "runner">,
): Promise<Leftovers | undefined> {
  try {
    return await listLeftovers(options);
  } catch (error) {
    // Without `ip`, the mode has never run here.
    if (!(error instanceof ToolMissingError) || error.tool === "ip") throw error;
    throw new Error(
      "the virtual servers, sets and addresses of ipvs mode stay, and with them services at this node: " +
        `${error.message} (install it and repeat sluice --cleanup, or reboot)`,
      { cause: error },
    );
  }
}

async function listLeftovers(
  { family, runner }: Pick<BackendOptions, "family" | "runner">,
): Promise<Leftovers | undefined> {
  const dummy = createDummyInterface(family, runner), sets = createSets(family, runner);
  const { hasDummy, dummy: addresses, node: nodeAddresses } = await dummy.list();
  // A kernel without support for sets has none to remove.
  const listed = hasDummy ? await sets.list() : await sets.list().catch(() => undefined);
  const held = createHeldAddresses(family, runner), heldAddresses = await held.list();
  if (!hasDummy && heldAddresses.size === 0 && (listed === undefined || listed.names.size === 0)) return undefined;
  const servers = createVirtualServers(family, runner), bound = new Set(addresses.keys());
  const entries: ListedSets["entries"] = listed?.entries ?? new Map();
  const isOwn = (key: ServerKey) => {
    const server = parseServerKey(key);
    if (server === undefined) return false;
    const { protocol, address, port } = server;
    const element = protocol === "sctp" ? `${address},sctp:${port}` : String(port);
    return bound.has(address) || heldAddresses.has(address) ||
      entries.has(entryOf(NODE_PORT_SETS[protocol].all, family, element));
  };
  const all = await servers.list(), own = new Map(all.entries().filter(([key]) => isOwn(key)));
  const others = all.size - own.size;
  return { own, others, bound, entries, heldAddresses, nodeAddresses, servers, sets, dummy, held };
}

/**
 * Removes everything that the IPVS modes of Sluice and kube-proxy have in a family: chains, virtual servers, sets and addresses,
 * and the dummy interface with its last address. Throws if something cannot be removed.
 * @param stays the layout of another mode that is in effect, whose chains stay
 */
export async function removeIpvsTraces(options: BackendOptions, stays?: Layout): Promise<void> {
  const found = await findLeftovers(options);
  if (found !== undefined) await removeFound(found, options, stays);
}

/** Removes what was found, and the chains. Throws if something cannot be removed. @param stays see `removeIpvsTraces` */
export async function removeFound(found: Leftovers, options: BackendOptions, stays?: Layout): Promise<void> {
  await removeIptablesTraces(options, stays);
  const { own, servers, sets, dummy, held } = found;
  await servers.withdraw(own.keys().map((server) => ({ does: "delete", server }) as const).toArray());
  // The sets come last: without them and the interface, nothing is found again after a failure.
  if (found.heldAddresses.size > 0) await held.releaseAll();
  await sets.destroy();
  await dummy.remove();
  options.logger.info("removed the virtual servers, sets and addresses of ipvs mode", { virtualServers: own.size });
}
