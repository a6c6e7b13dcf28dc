import { type Clock, prefixContains } from "../../platform/mod.ts";
import { type UdpFrontend, udpFrontend } from "../host/mod.ts";
import { createAccumulator } from "../reconcile/mod.ts";
import { isHostFailure, type ToolFailure } from "../tools/mod.ts";
import type { Desired } from "./desired.ts";
import type { Difference } from "./ledger.ts";
import {
  type Operation,
  parseServerKey,
  type ServerKey,
  serverOperations,
  terminatingAfter,
  type VirtualServer,
  type VirtualServers,
} from "./virtual_servers.ts";

/** Brings the kernel's virtual servers to the desired state. */
interface ServerSync {
  /**
   * Reads the kernel; returns how many virtual servers other programs changed.
   * @param udpFrontends gets the UDP frontends that the kernel serves
   */
  read(udpFrontends?: Set<UdpFrontend>): Promise<number>;
  /** Adds new virtual servers at these addresses, without real servers; the next `write` finds refused ones. */
  announce(addresses: ReadonlySet<string>): Promise<void>;
  /** Writes the differences in one call, and removes real servers that have terminated. Throws if the host is at fault. */
  write(): Promise<void>;
  /** The time until the next `write` for terminating real servers, even if nothing changes; undefined if there are none. */
  againAfterMs(): number | undefined;
  /** The number of operations since the last call, refused ones included. */
  takeOperations(): number;
}

/** The parts that a synchronizer of virtual servers works with. */
export interface ServerSyncOptions {
  readonly desired: Desired;
  readonly servers: VirtualServers;
  /** Virtual servers in these prefixes that are not wanted belong to other programs. */
  readonly excludePrefixes: readonly string[];
  readonly clock: Clock;
}

/** The maximum number of virtual servers that are tried one by one after ipvsadm refused some of a batch. */
const SEARCH_LIMIT = 64;

/** Creates a synchronizer of virtual servers that has not read them yet. */
export function createServerSync({ desired, servers, excludePrefixes, clock }: ServerSyncOptions): ServerSync {
  const { servers: ledger } = desired;
  const termination = createTermination(servers, clock);
  const operations = createAccumulator(() => 0);
  const apply = (some: readonly Operation[]) => {
    operations.value += some.length;
    return servers.apply(some);
  };

  async function read(udpFrontends?: Set<UdpFrontend>): Promise<number> {
    const held = new Map(
      (await servers.list()).entries().filter(([key]) => ledger.wanted(key) || !isExcluded(key, excludePrefixes)),
    );
    if (udpFrontends) noteUdpFrontends(held.keys(), udpFrontends);
    termination.reset(held);
    return ledger.adopt(held);
  }

  /** Writes some differences; returns the failure if the kernel refuses any. */
  async function writeSome(some: readonly Difference<VirtualServer>[]): Promise<ToolFailure | undefined> {
    const all = some.flatMap(({ id, held, wanted }) => [...serverOperations(id, held, wanted, termination.of(id))]);
    if (all.length === 0) return undefined;
    const failure = await apply(all);
    if (failure !== undefined) return failure;
    for (const { id, held, wanted } of some) {
      ledger.settle(id);
      termination.note(id, terminatingAfter(id, held, wanted, termination.of(id)));
    }
    return undefined;
  }

  function toWrite(): Difference<VirtualServer>[] {
    return ledger.differences().filter(({ id, wanted }) => wanted !== undefined || !isExcluded(id, excludePrefixes));
  }

  /** Finds the refused virtual servers: ipvsadm has written all others, and the rest is tried one by one. */
  async function search(failure: ToolFailure): Promise<void> {
    if (isHostFailure(failure)) throw new Error(failure.text);
    await read();
    const left = toWrite();
    if (left.length > SEARCH_LIMIT) throw new Error(failure.text);
    for (const difference of left) {
      const own = await writeSome([difference]);
      if (own) ledger.refuse(difference.id, own.text);
    }
    // A refused virtual server may exist in part.
    await read();
  }

  return {
    read,
    async announce(addresses) {
      const added = toWrite().flatMap(({ id, held, wanted }) =>
        wanted && !held && addresses.has(parseServerKey(id)?.address ?? "")
          ? [{ id, definition: wanted.definition }]
          : []
      );
      if (added.length === 0) return;
      const failure = await apply(added.map(({ id, definition }) => ({ does: "add", server: id, definition })));
      if (failure !== undefined) return;
      for (const { id, definition } of added) ledger.hold(id, { definition, realServers: [] });
    },
    async write() {
      const failure = await writeSome(toWrite());
      if (failure !== undefined) await search(failure);
      const ended = await termination.takeEnded();
      if (ended.length > 0 && await apply(ended) !== undefined) await read();
    },
    againAfterMs: termination.againAfterMs,
    takeOperations: operations.take,
  };
}

function isExcluded(key: ServerKey, excludePrefixes: readonly string[]): boolean {
  const address = parseServerKey(key)?.address;
  return address !== undefined && excludePrefixes.some((prefix) => prefixContains(prefix, address));
}

function noteUdpFrontends(keys: Iterable<ServerKey>, frontends: Set<UdpFrontend>): void {
  for (const key of keys) {
    const named = parseServerKey(key);
    if (named?.protocol === "udp") frontends.add(udpFrontend(named.address, named.port));
  }
}

/** Most connections of a removed real server are short: the first count is early, later ones follow once a minute. */
const FIRST_COUNT_MS = 5_000;
const NEXT_COUNT_MS = 60_000;

/** The share of time that counting may take: listing 10,000 virtual servers takes half a second. */
const COUNTING_SHARE = 0.02;

const NONE: ReadonlySet<string> = new Set();

/** Graceful termination: real servers that get no new connections, and are removed when their last connection has ended. */
function createTermination(servers: VirtualServers, clock: Clock) {
  const terminating = new Map<ServerKey, ReadonlySet<string>>();
  let dueMs: number | undefined;
  let notBeforeMs = 0;

  const countWithin = (ms: number) => {
    const latest = Math.max(clock.monotonic() + ms, notBeforeMs);
    dueMs = dueMs === undefined ? latest : Math.min(dueMs, latest);
  };
  const of = (server: ServerKey) => terminating.get(server) ?? NONE;
  /** Replaces the terminating real servers of a virtual server. */
  const note = (server: ServerKey, now: ReadonlySet<string>) => {
    const before = of(server);
    if (now.size === 0) terminating.delete(server);
    else terminating.set(server, now);
    if (!now.isSubsetOf(before)) countWithin(FIRST_COUNT_MS);
    else if (terminating.size === 0) dueMs = undefined;
  };

  return {
    /** The terminating real servers of a virtual server. */
    of,
    note,
    /** Replaces the terminating real servers by those of the virtual servers in the kernel. */
    reset(kernel: ReadonlyMap<ServerKey, { readonly terminating: ReadonlySet<string> }>): void {
      for (const server of [...terminating.keys()]) if (!kernel.has(server)) note(server, NONE);
      for (const [server, listed] of kernel) note(server, listed.terminating);
    },
    /** Counts connections if that is due; returns the operations that remove real servers without any. */
    async takeEnded(): Promise<Operation[]> {
      if (dueMs === undefined || clock.monotonic() < dueMs) return [];
      const startedMs = clock.monotonic();
      const connections = await servers.connections(new Set(terminating.keys()));
      const endedMs = clock.monotonic();
      notBeforeMs = endedMs + (endedMs - startedMs) / COUNTING_SHARE;
      const operations: Operation[] = [];
      for (const [server, reals] of [...terminating]) {
        const known = connections.get(server);
        const left = new Set<string>();
        for (const real of reals) {
          const open = known?.get(real);
          if (open === 0) operations.push({ does: "delete-real", server, real });
          else if (open !== undefined) left.add(real);
        }
        note(server, left);
      }
      dueMs = undefined;
      if (terminating.size > 0) countWithin(NEXT_COUNT_MS);
      return operations;
    },
    /** The time until the next count is due; undefined if no real server terminates. */
    againAfterMs: () => dueMs === undefined ? undefined : dueMs - clock.monotonic(),
  };
}
