import type { BackendOptions } from "../contract/mod.ts";
import { bothLayouts, type Layout, NO_LAYOUT, removeIptablesTraces } from "../xtables/mod.ts";
import { createDummyInterface } from "./addresses.ts";
import { findLeftovers, type Leftovers, removeFound } from "./leftovers.ts";
import { DRAIN_LAYOUT } from "./rules.ts";
import { type ListedServer, type Operation, parseServerKey, type ServerKey, weightsOf } from "./virtual_servers.ts";

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

/** A step of the drain. */
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
