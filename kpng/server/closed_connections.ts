import type { Logger } from "../../platform/mod.ts";

const REASONS = [
  "too many connections",
  "too many connections from one address",
  "no TLS handshake",
  "no HTTP/2 over TLS",
  "certificate of another organization",
  "no HTTP/2 settings",
  "no call",
  "streams opened too fast",
  "streams reset too fast",
  "PING or SETTINGS flood",
  "too many frames",
  "broken frames",
  "the client left",
  "no answer to PING",
] as const;

/** Why the server closed a connection. */
export type ClosureReason = typeof REASONS[number];

/** Reasons that well-behaved clients cause as well. */
const ORDINARY: ReadonlySet<ClosureReason> = new Set(["no call", "the client left", "no answer to PING"]);

/** Counts the connections closed by the server. */
export interface ClosedConnections {
  /** Counts and logs one; `address` is the client's. */
  count(reason: ClosureReason, address: string | undefined): void;
  /** The number closed for that reason since the start. */
  of(reason: ClosureReason): number;
  /** The numbers by reason, including those that are 0. */
  all(): ReadonlyMap<ClosureReason, number>;
}

/** Counts the closed connections of one server. */
export function createClosedConnections(logger: Logger): ClosedConnections {
  const counts = new Map<ClosureReason, number>(REASONS.map((reason) => [reason, 0]));
  const of = (reason: ClosureReason) => counts.get(reason) ?? 0;
  return {
    of,
    all: () => new Map(counts),
    count(reason, address) {
      counts.set(reason, of(reason) + 1);
      // Without the address, so that an attacker with many addresses causes one line a minute.
      if (!ORDINARY.has(reason)) logger.warn("closed gRPC connections", { reason, closed: of(reason) });
      logger.debug("closed a gRPC connection", { reason, address });
    },
  };
}
