import type { Clock } from "../platform/mod.ts";

/** The endpoints that clients with session affinity used last, within a bound. */
export interface AffinityTable {
  /** Returns the endpoint of a client, or undefined if it has none or its time has passed. */
  get(client: string): string | undefined;
  /** Remembers the endpoint of a client for `seconds` from now, as every connection renews it. */
  put(client: string, endpoint: string, seconds: number): void;
}

interface Remembered {
  readonly endpoint: string;
  readonly untilMs: number;
}

/** Creates an empty table for at most `size` clients; the one that was renewed longest ago makes room. */
export function createAffinityTable(clock: Clock, size: number): AffinityTable {
  // In the order of renewal.
  const clients = new Map<string, Remembered>();
  const dropOldest = () => {
    for (const [client, { untilMs }] of clients) {
      if (clients.size <= size && untilMs > clock.monotonic()) return;
      clients.delete(client);
    }
  };
  return {
    get(client) {
      const known = clients.get(client);
      return known !== undefined && known.untilMs > clock.monotonic() ? known.endpoint : undefined;
    },
    put(client, endpoint, seconds) {
      clients.delete(client);
      clients.set(client, { endpoint, untilMs: clock.monotonic() + seconds * 1000 });
      dropOldest();
    },
  };
}
