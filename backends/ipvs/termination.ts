import type { Clock } from "../../platform/mod.ts";
import type { VirtualServers } from "./ipvsadm.ts";
import type { Operation, ServerKey } from "./virtual_servers.ts";

/** Real servers that get no new connections, and go when those that they have are over (graceful termination). */
export interface Termination {
  /** Those of a virtual server. */
  of(server: ServerKey): ReadonlySet<string> | undefined;
  /** These are the ones of a virtual server from now on. */
  note(server: ServerKey, terminating: ReadonlySet<string>): void;
  /** These are all there are. */
  reset(all: ReadonlyMap<ServerKey, ReadonlySet<string>>): void;
  /**
   * Looks at the connections, where that is due.
   * @returns what takes those away that have none any more; they are no longer known here
   */
  takeEnded(): Promise<Operation[]>;
  /** In how long the next look is due; undefined where there is nothing to look after. */
  againAfterMs(): number | undefined;
}

/** Most connections of a removed real server are short: the first look is early, others come once a minute. */
const FIRST_LOOK_MS = 5_000;
const NEXT_LOOK_MS = 60_000;

/** No more than this share of the time goes into looking: listing 10,000 virtual servers takes half a second. */
const LOOKING_SHARE = 0.02;

/** Nothing terminates yet. */
export function createTermination(servers: VirtualServers, clock: Clock): Termination {
  const terminating = new Map<ServerKey, ReadonlySet<string>>();
  let dueMs: number | undefined;
  let notBeforeMs = 0;

  const lookWithin = (ms: number) => {
    const latest = Math.max(clock.monotonic() + ms, notBeforeMs);
    dueMs = dueMs === undefined ? latest : Math.min(dueMs, latest);
  };
  const note = (server: ServerKey, now: ReadonlySet<string>) => {
    const before = terminating.get(server);
    if (now.size === 0) terminating.delete(server);
    else terminating.set(server, now);
    for (const real of now) if (!before?.has(real)) return lookWithin(FIRST_LOOK_MS);
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
      notBeforeMs = endedMs + (endedMs - startedMs) / LOOKING_SHARE;
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
      if (terminating.size > 0) lookWithin(NEXT_LOOK_MS);
      return operations;
    },
    againAfterMs: () => dueMs === undefined ? undefined : Math.max(0, dueMs - clock.monotonic()),
  };
}
