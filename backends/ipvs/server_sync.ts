import { type Clock, prefixContains } from "../../platform/mod.ts";
import { type UdpFrontend, udpFrontend } from "../host/mod.ts";
import { lacksMeans } from "../tools/mod.ts";
import type { Desired, HeldServer } from "./desired.ts";
import { serverOperations, terminatingAfter } from "./difference.ts";
import { addressOf, type VirtualServers } from "./ipvsadm.ts";
import type { Difference } from "./ledger.ts";
import type { Refusals } from "./refusals.ts";
import { createTermination } from "./termination.ts";
import { type ListedServer, type Operation, parseServerKey, type ServerKey } from "./virtual_servers.ts";

/** Keeps the kernel's virtual servers to what is desired. */
export interface ServerSync {
  /**
   * Reads the kernel.
   * @returns how many virtual servers are not as they were believed to be
   */
  read(): Promise<number>;
  /**
   * Writes the virtual servers that are new at these addresses, without their real servers. Where the kernel refuses any,
   * the next `write` finds out which.
   */
  announce(addresses: ReadonlySet<string>): Promise<void>;
  /** Writes what differs, in one call, and takes away what has ended. Throws where the kernel takes none of it. */
  write(): Promise<void>;
  /** When to write again although nothing changed, to take away what ends; undefined where nothing is to end. */
  againAfterMs(): number | undefined;
  /** How many operations there were since this was last asked. */
  takeOperations(): number;
  /** The UDP frontends that the kernel had virtual servers for at the first reading; empty when asked again. */
  takeEarlierUdpFrontends(): ReadonlySet<UdpFrontend>;
}

/** What it works with. */
export interface ServerSyncOptions {
  readonly desired: Desired;
  readonly servers: VirtualServers;
  /** Virtual servers in these prefixes that are not wanted are somebody else's. */
  readonly excludePrefixes: readonly string[];
  readonly refusals: Refusals;
  readonly clock: Clock;
}

/** How many virtual servers are tried one by one where ipvsadm complained of a batch. */
const SEARCH_LIMIT = 64;

const NONE: ReadonlySet<string> = new Set();

/** Virtual servers that have not been read yet. */
export function createServerSync(options: ServerSyncOptions): ServerSync {
  const { desired, servers, excludePrefixes, refusals, clock } = options;
  const { servers: ledger } = desired;
  const termination = createTermination(servers, clock);
  let operations = 0;
  let earlierFrontends: ReadonlySet<UdpFrontend> | undefined;

  function isExcluded(key: ServerKey): boolean {
    const address = addressOf(key);
    return address !== undefined && excludePrefixes.some((prefix) => prefixContains(prefix, address));
  }

  async function read(): Promise<number> {
    const held = new Map<ServerKey, HeldServer>();
    const terminating = new Map<ServerKey, ReadonlySet<string>>();
    for (const [key, listed] of await servers.list()) {
      const wanted = ledger.wanted(key);
      if (!wanted && isExcluded(key)) continue;
      const { server, ending } = interpret(listed, wanted?.realServers);
      held.set(key, server);
      if (ending.size > 0) terminating.set(key, ending);
    }
    earlierFrontends ??= udpFrontendsOf(held.keys());
    termination.reset(terminating);
    return ledger.adopt(held);
  }

  /** Writes some of what differs; returns the tool's complaint, where it has one. */
  async function writeSome(some: readonly Difference<HeldServer>[]): Promise<string | undefined> {
    if (some.length === 0) return undefined;
    const terminating = new Map<ServerKey, ReadonlySet<string>>();
    const all: Operation[] = [];
    for (const { id, held, wanted } of some) {
      const before = termination.of(id) ?? NONE;
      const own = [...serverOperations(id, held, wanted, before)];
      terminating.set(id, terminatingAfter(own, before));
      for (const operation of own) all.push(operation);
    }
    operations += all.length;
    const failure = await servers.apply(all);
    if (failure !== undefined) return failure;
    for (const { id } of some) ledger.settle(id);
    for (const [id, ending] of terminating) termination.note(id, ending);
    return undefined;
  }

  function toWrite(): Difference<HeldServer>[] {
    return ledger.differences().filter(({ id, wanted }) =>
      !refusals.has(id, wanted) && (wanted !== undefined || !isExcluded(id))
    );
  }

  /** Everything that the kernel takes is written, and what is left is tried one by one. */
  async function search(failure: string): Promise<void> {
    if (lacksMeans(failure)) throw new Error(failure);
    await read();
    const left = toWrite();
    if (left.length > SEARCH_LIMIT) throw new Error(failure);
    for (const difference of left) {
      const own = await writeSome([difference]);
      if (own === undefined) continue;
      const { id, wanted } = difference;
      const servicePort = ledger.owner(id)?.replace(/\|\w+$/, "");
      refusals.add(id, wanted, `virtual server ${id}`, servicePort, own);
    }
    // What was refused may be there in part.
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
      operations += added.length;
      for (const { id, definition } of added) ledger.hold(id, { definition, realServers: [] });
    },
    async write() {
      const failure = await writeSome(toWrite());
      if (failure !== undefined) await search(failure);
      const ended = await termination.takeEnded();
      operations += ended.length;
      if (ended.length > 0 && await servers.apply(ended) !== undefined) await read();
    },
    againAfterMs: termination.againAfterMs,
    takeOperations() {
      const taken = operations;
      operations = 0;
      return taken;
    },
    takeEarlierUdpFrontends() {
      const taken = earlierFrontends ?? NO_FRONTENDS;
      if (earlierFrontends) earlierFrontends = NO_FRONTENDS;
      return taken;
    },
  };
}

const NO_FRONTENDS: ReadonlySet<UdpFrontend> = new Set();

function udpFrontendsOf(keys: Iterable<ServerKey>): Set<UdpFrontend> {
  const frontends = new Set<UdpFrontend>();
  for (const key of keys) {
    const named = parseServerKey(key);
    if (named?.protocol === "udp") frontends.add(udpFrontend(named.address, named.port));
  }
  return frontends;
}

/** What a listed virtual server is in our terms. A list of real servers that is the wanted one is not kept twice. */
function interpret(
  { definition, weights }: ListedServer,
  wanted: readonly string[] | undefined,
): { readonly server: HeldServer; readonly ending: ReadonlySet<string> } {
  const realServers: string[] = [];
  const ending = new Set<string>(), misweighted = new Set<string>();
  for (const [real, weight] of weights) {
    if (weight === 1) realServers.push(real);
    else if (weight === 0) ending.add(real);
    else misweighted.add(real);
  }
  const isWanted = wanted?.length === realServers.length && wanted.every((real) => weights.get(real) === 1);
  const server = { definition, realServers: isWanted ? wanted : realServers };
  return { server: misweighted.size > 0 ? { ...server, misweighted } : server, ending };
}
