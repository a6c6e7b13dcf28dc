import type { Clock } from "../../platform/mod.ts";
import type { VirtualServers } from "./ipvsadm.ts";
import type { Operation, ServerKey } from "./virtual_servers.ts";

/**
 * Graceful termination: real servers that get no new connections, and are removed when their last connection has ended.
 */
export interface Termination {
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
