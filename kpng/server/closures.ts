import type { Logger } from "../../platform/mod.ts";

/** Why the server closed a connection by itself. */
export type ClosureReason =
  | "too many connections"
  | "too many connections from one address"
  | "no TLS handshake"
  | "no HTTP/2 over TLS"
  | "no HTTP/2 settings"
  | "no call"
  | "streams opened too fast"
  | "streams reset too fast"
  | "PING or SETTINGS flood"
  | "too many frames"
  | "broken frames"
  | "the client left"
  | "no answer to PING";

/** Reasons that honest clients give, too. */
const ORDINARY: ReadonlySet<ClosureReason> = new Set(["no call", "the client left", "no answer to PING"]);

/** Connections that the server closed by itself, counted. */
export interface Closures {
  /** Counts one, and logs it; `address` is the client's. */
  count(reason: ClosureReason, address: string | undefined): void;
  /** How many were closed for that reason since the start. */
  of(reason: ClosureReason): number;
}

/** Counts for one server. */
export function createClosures(logger: Logger): Closures {
  const counts = new Map<ClosureReason, number>();
  const of = (reason: ClosureReason) => counts.get(reason) ?? 0;
  return {
    of,
    count(reason, address) {
      counts.set(reason, of(reason) + 1);
      // Without the address, so that an attacker with many of them gets one line a minute.
      if (!ORDINARY.has(reason)) logger.warn("closed gRPC connections", { reason, closed: of(reason) });
      logger.debug("closed a gRPC connection", { reason, address });
    },
  };
}
