import { type Clock, prefixContains } from "../../platform/mod.ts";
import { type UdpFrontend, udpFrontend } from "../host/mod.ts";
import { createAccumulator, type Refusals } from "../reconcile/mod.ts";
import { isHostFailure, type ToolFailure } from "../tools/mod.ts";
import type { Desired } from "./desired.ts";
import { createPending, type Difference } from "./ledger.ts";
import {
  addressOf,
  type HeldServer,
  type ListedServer,
  type Operation,
  parseServerKey,
  type ServerKey,
  serverOperations,
  terminatingAfter,
  type VirtualServers,
  weightsOf,
} from "./virtual_servers.ts";

/** Brings the kernel's virtual servers to the desired state. */
interface ServerSync {
  /** Reads the kernel; returns how many virtual servers other programs changed. */
  read(): Promise<number>;
  /**
   * Adds the virtual servers that are new at these addresses, without their real servers. If the kernel refuses any,
   * the next `write` finds out which.
   */
  announce(addresses: ReadonlySet<string>): Promise<void>;
  /** Writes the differences in one call, and removes real servers that have terminated. Throws if the host is at fault. */
  write(): Promise<void>;
  /**
   * The time until the next `write` for terminating real servers, even if nothing changes; undefined if there are none.
   */
  againAfterMs(): number | undefined;
  /** The number of operations written since the last call. */
  takeOperations(): number;
  /** The UDP frontends that the kernel served when it was first read; empty from the second call on. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** The parts that a synchronizer of virtual servers works with. */
export interface ServerSyncOptions {
  readonly desired: Desired;
  readonly servers: VirtualServers;
  /** Virtual servers in these prefixes that are not wanted belong to other programs. */
  readonly excludePrefixes: readonly string[];
  readonly refusals: Refusals<string>;
  readonly clock: Clock;
}

/** The maximum number of virtual servers that are tried one by one after ipvsadm refused some of a batch. */
const SEARCH_LIMIT = 64;

const NONE: ReadonlySet<string> = new Set();

/** Creates a synchronizer of virtual servers that has not read them yet. */
export function createServerSync(options: ServerSyncOptions): ServerSync {
  const { desired, servers, excludePrefixes, refusals, clock } = options;
  const { servers: ledger } = desired;
  const termination = createTermination(servers, clock);
  const pending = createPending("virtual server", ledger, refusals);
  const operations = createAccumulator(() => 0);
  const earlierFrontends = createAccumulator<ReadonlySet<UdpFrontend>>(() => new Set());
  let isFirst = true;

  async function read(): Promise<number> {
    const held = new Map<ServerKey, HeldServer>();
    const terminating = new Map<ServerKey, ReadonlySet<string>>();
    for (const [key, listed] of await servers.list()) {
      const wanted = ledger.wanted(key);
      if (!wanted && isExcluded(key, excludePrefixes)) continue;
      const { server, ending } = interpret(listed, wanted);
      held.set(key, server);
      if (ending.size > 0) terminating.set(key, ending);
    }
    if (isFirst) earlierFrontends.value = udpFrontendsOf(held.keys());
    isFirst = false;
    termination.reset(terminating);
    return ledger.adopt(held);
  }

  /** Writes some differences; returns the failure if the kernel refuses any. */
  async function writeSome(some: readonly Difference<HeldServer>[]): Promise<ToolFailure | undefined> {
    if (some.length === 0) return undefined;
    const { all, terminating } = plan(some, termination);
    operations.value += all.length;
    const failure = await servers.apply(all);
    if (failure !== undefined) return failure;
    for (const { id } of some) ledger.settle(id);
    for (const [id, ending] of terminating) termination.note(id, ending);
    return undefined;
  }

  function toWrite(): Difference<HeldServer>[] {
    return pending.differences().filter(({ id, wanted }) => wanted !== undefined || !isExcluded(id, excludePrefixes));
  }

  /** Finds the refused virtual servers: ipvsadm has written all others, and the rest is tried one by one. */
  async function search(failure: ToolFailure): Promise<void> {
    if (isHostFailure(failure)) throw new Error(failure.text);
    await read();
    const left = toWrite();
    if (left.length > SEARCH_LIMIT) throw new Error(failure.text);
    for (const difference of left) {
      const own = await writeSome([difference]);
      if (own) pending.refuse(difference.id, own.text);
    }
    // A refused virtual server may exist in part.
    if (left.length > 0) await read();
  }

  return {
    read,
    async announce(addresses) {
      if (addresses.size === 0) return;
      const added = toWrite().flatMap(({ id, held, wanted }) =>
        wanted && !held && addresses.has(addressOf(id) ?? "") ? [{ id, definition: wanted.definition }] : []
      );
      if (added.length === 0) return;
      const failure = await servers.apply(added.map(({ id, definition }) => ({ does: "add", server: id, definition })));
      if (failure !== undefined) return;
      operations.value += added.length;
      for (const { id, definition } of added) ledger.hold(id, { definition, realServers: [] });
    },
    async write() {
      const failure = await writeSome(toWrite());
      if (failure !== undefined) await search(failure);
      const ended = await termination.takeEnded();
      operations.value += ended.length;
      if (ended.length > 0 && await servers.apply(ended) !== undefined) await read();
    },
    againAfterMs: termination.againAfterMs,
    takeOperations: operations.take,
    takeEarlierUdpFrontends: earlierFrontends.take,
  };
}

function isExcluded(key: ServerKey, excludePrefixes: readonly string[]): boolean {
  const address = addressOf(key);
  return address !== undefined && excludePrefixes.some((prefix) => prefixContains(prefix, address));
}

/** Returns the operations that write some differences, and the real servers that terminate after them. */
function plan(some: readonly Difference<HeldServer>[], termination: Termination) {
  const terminating = new Map<ServerKey, ReadonlySet<string>>();
  const all: Operation[] = [];
  for (const { id, held, wanted } of some) {
    const before = termination.of(id) ?? NONE;
    const own = [...serverOperations(id, held, wanted, before)];
    terminating.set(id, terminatingAfter(own, before));
    for (const operation of own) all.push(operation);
  }
  return { all, terminating };
}

function udpFrontendsOf(keys: Iterable<ServerKey>): Set<UdpFrontend> {
  const frontends = new Set<UdpFrontend>();
  for (const key of keys) {
    const named = parseServerKey(key);
    if (named?.protocol === "udp") frontends.add(udpFrontend(named.address, named.port));
  }
  return frontends;
}

/** Converts a listed virtual server. If its real servers are the desired ones it shares their list, to save memory. */
function interpret(
  { definition, weights }: ListedServer,
  wanted: HeldServer | undefined,
): { readonly server: HeldServer; readonly ending: ReadonlySet<string> } {
  const desired = wanted?.weights && weightsOf(wanted);
  const realServers: string[] = [];
  const ending = new Set<string>(), misweighted = new Set<string>();
  for (const [real, weight] of weights) {
    if (weight === 0) ending.add(real);
    else if (weight === (desired?.get(real) ?? 1)) realServers.push(real);
    else misweighted.add(real);
  }
  const isWanted = wanted?.realServers.length === realServers.length &&
    wanted.realServers.every((real, i) => weights.get(real) === (wanted.weights?.[i] ?? 1));
  const ofReals = desired && realServers.map((real) => desired.get(real) ?? 1);
  const server = isWanted ? { ...wanted, definition } : { definition, realServers, ...ofReals && { weights: ofReals } };
  return { server: misweighted.size > 0 ? { ...server, misweighted } : server, ending };
}

/**
 * Graceful termination: real servers that get no new connections, and are removed when their last connection has ended.
 */
interface Termination {
  /** The terminating real servers of a virtual server. */
  of(server: ServerKey): ReadonlySet<string> | undefined;
  /** Replaces the terminating real servers of a virtual server. */
  note(server: ServerKey, terminating: ReadonlySet<string>): void;
  /** Replaces the terminating real servers of all virtual servers. */
  reset(all: ReadonlyMap<ServerKey, ReadonlySet<string>>): void;
  /**
   * Counts connections if a count is due, and forgets the real servers that have none left.
   * @returns the operations that remove them
   */
  takeEnded(): Promise<Operation[]>;
  /** The time until the next count is due; undefined if no real server terminates. */
  againAfterMs(): number | undefined;
}

/** Most connections of a removed real server are short: the first count is early, later ones follow once a minute. */
const FIRST_COUNT_MS = 5_000;
const NEXT_COUNT_MS = 60_000;

/** The share of time that counting may take: listing 10,000 virtual servers takes half a second. */
const COUNTING_SHARE = 0.02;

/** Creates graceful termination, without real servers at first. */
export function createTermination(servers: VirtualServers, clock: Clock): Termination {
  const terminating = new Map<ServerKey, ReadonlySet<string>>();
  let dueMs: number | undefined;
  let notBeforeMs = 0;

  const countWithin = (ms: number) => {
    const latest = Math.max(clock.monotonic() + ms, notBeforeMs);
    dueMs = dueMs === undefined ? latest : Math.min(dueMs, latest);
  };
  const note = (server: ServerKey, now: ReadonlySet<string>) => {
    const before = terminating.get(server);
    if (now.size === 0) terminating.delete(server);
    else terminating.set(server, now);
    for (const real of now) if (!before?.has(real)) return countWithin(FIRST_COUNT_MS);
    if (terminating.size === 0) dueMs = undefined;
  };

  return {
    of: (server) => terminating.get(server),
    note,
    reset(all) {
      for (const server of [...terminating.keys()]) if (!all.has(server)) note(server, new Set());
      for (const [server, now] of all) note(server, now);
    },
    async takeEnded() {
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
    againAfterMs: () => dueMs === undefined ? undefined : Math.max(0, dueMs - clock.monotonic()),
  };
}
