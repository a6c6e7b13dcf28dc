import type { Logger } from "../../platform/mod.ts";
import type { Tally } from "./tally.ts";

/** All reasons. */
export const REASONS = [
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
}

/** Counts the closed connections of one isolate. */
export function createClosedConnections(logger: Logger, tally: Tally): ClosedConnections {
  return {
    count(reason, address) {
      tally.add(`closed: ${reason}`, 1);
      // Without the address, so that an attacker with many addresses causes one line a minute.
      if (!ORDINARY.has(reason)) {
        logger.warn("closed gRPC connections", { reason, closed: tally.total(`closed: ${reason}`) });
      }
      logger.debug("closed a gRPC connection", { reason, address });
    },
  };
}
