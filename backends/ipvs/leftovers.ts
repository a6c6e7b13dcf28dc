import type { BackendOptions } from "../contract/mod.ts";
import { ToolMissingError } from "../tools/mod.ts";
import { bothLayouts, type Layout, NO_LAYOUT, removeIptablesTraces } from "../xtables/mod.ts";
import { createDummyInterface, createHeldAddresses, type DummyInterface, type HeldAddresses } from "./addresses.ts";
import { DRAIN_LAYOUT } from "./rules.ts";
import { createSets, entryOf, type ListedSets, NODE_PORT_SETS, type Sets } from "./sets.ts";
import {
  createVirtualServers,
  type ListedServer,
  type Operation,
  parseServerKey,
  type ServerKey,
  type VirtualServers,
  weightsOf,
} from "./virtual_servers.ts";

/** Everything that the IPVS modes of Sluice and kube-proxy have in a family, apart from chains. */
interface Leftovers {
  /** The virtual servers whose address is a service's, or whose port is in a set of node ports. */
  readonly own: ReadonlyMap<ServerKey, ListedServer>;
  /** The number of virtual servers of other programs. */
  readonly others: number;
  /** The addresses of the dummy interface. */
  readonly bound: ReadonlySet<string>;
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
async function removeFound(found: Leftovers, options: BackendOptions, stays?: Layout): Promise<void> {
  await removeIptablesTraces(options, stays);
  const { own, servers, sets, dummy, held } = found;
  await servers.withdraw(own.keys().map((server) => ({ does: "delete", server }) as const).toArray());
  // The sets come last: without them and the interface, nothing is found again after a failure.
  if (found.heldAddresses.size > 0) await held.releaseAll();
  await sets.destroy();
  await dummy.remove();
  options.logger.info("removed the virtual servers, sets and addresses of ipvs mode", { virtualServers: own.size });
}

/** Most connections are short: the second count is early. */
const SECOND_COUNT_MS = 5_000;
const NEXT_COUNT_MS = 30_000;

/** After this time, connections that are still open are ended. */
const LIMIT_HOURS = 24;

/** How open connections of IPVS mode end. Without their virtual servers, the kernel drops their packets. */
export const IPVS_DRAIN = { layout: DRAIN_LAYOUT, start: startDrain };

function startDrain(options: BackendOptions) {
  const { family, runner, clock, logger } = options;
  let startedMs: number | undefined;
  return {
    async prepare(): Promise<void> {
      if (!await createDummyInterface(family, runner).isUsed()) return;
      const found = await findLeftovers(options);
      if (found !== undefined) await holdAddresses(found, found.bound.union(found.heldAddresses));
    },
    async run(stays: Layout = NO_LAYOUT): Promise<number | undefined> {
      const found = await findLeftovers(options);
      if (found === undefined) return undefined;
      const { own, servers } = found;
      const isFirst = startedMs === undefined;
      startedMs ??= clock.monotonic();
      const isOver = clock.monotonic() - startedMs >= LIMIT_HOURS * 3_600_000;
      const { operations, addresses, virtualServers, connections } = planDrain(
        own,
        own.size > 0 ? await servers.connections(new Set(own.keys())) : new Map(),
        isOver,
      );
      if (connections === 0) {
        await removeFound(found, options, stays);
        return undefined;
      }
      if (isFirst) {
        const counts = { connections, virtualServers, atMostHours: LIMIT_HOURS };
        logger.info("connections of ipvs mode are open: their virtual servers stay until they end", counts);
      }
      if (isOver) logger.warn("ending the connections of ipvs mode that are still open", { connections });
      await removeIptablesTraces(options, bothLayouts(stays, DRAIN_LAYOUT));
      await servers.withdraw(operations);
      // A virtual server is found by its address.
      await holdAddresses(found, addresses);
      return isFirst || isOver ? SECOND_COUNT_MS : NEXT_COUNT_MS;
    },
  };
}

/** Holds these service addresses, removes the dummy interface, and releases all other addresses. */
async function holdAddresses(
  { bound, heldAddresses, nodeAddresses, dummy, held }: Leftovers,
  wanted: ReadonlySet<string>,
): Promise<void> {
  const added = bound.intersection(wanted).difference(heldAddresses);
  if (added.size > 0) await held.hold(added, nodeAddresses);
  if (bound.size > 0) await dummy.remove();
  const released = heldAddresses.difference(wanted);
  if (released.size > 0) await held.release(released);
}

interface DrainStep {
  readonly operations: readonly Operation[];
  /** The addresses that open connections need. */
  readonly addresses: ReadonlySet<string>;
  /** The number of virtual servers with open connections. */
  readonly virtualServers: number;
  /** The number of open connections. */
  readonly connections: number;
}

/**
 * Plans a step: a virtual server without connections is deleted, and another one gets no new connections. Once the drain is
 * over, all are deleted, and only addresses stay: the next packet of a connection then has the kernel forget it, so that the
 * other mode handles the one after that.
 * @param own the virtual servers in the kernel
 * @param counts the connections of their real servers
 */
export function planDrain(
  own: ReadonlyMap<ServerKey, ListedServer>,
  counts: ReadonlyMap<ServerKey, ReadonlyMap<string, number>>,
  isOver: boolean,
): DrainStep {
  const operations: Operation[] = [], addresses = new Set<string>();
  let virtualServers = 0, connections = 0;
  for (const [server, listed] of own) {
    const open = [...counts.get(server)?.values() ?? []].reduce((sum, count) => sum + count, 0);
    if (open > 0) {
      virtualServers++;
      connections += open;
      addresses.add(parseServerKey(server)!.address);
    }
    if (open === 0 || isOver) operations.push({ does: "delete", server });
    else for (const real of weightsOf(listed).keys()) operations.push({ does: "update-real", server, real, weight: 0 });
  }
  return { operations, addresses, virtualServers, connections };
}
