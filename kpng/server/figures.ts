import type { Subscription } from "./answers.ts";
import { type ClosureReason, REASONS } from "./closed_connections.ts";
import type { Tally } from "./tally.ts";

/** A figure for each kind of watcher. */
export type ByScope = Readonly<Record<Subscription["scope"], number>>;

/** The figures of a server since its start, for metrics. */
export interface ServingFigures {
  /** The current watchers. */
  readonly watchers: ByScope;
  /** Ended rounds. */
  readonly rounds: ByScope;
  /** Bytes of messages, with gRPC's framing but without HTTP/2 and TLS. */
  readonly bytes: ByScope;
  /** Watchers dropped because they did not read. */
  readonly slowReaders: number;
  /** Watchers refused at the limit of their number. */
  readonly refusedWatchers: number;
  /** The current connections, including those without a handshake. */
  readonly connections: number;
  /** Connections closed by the server, by reason, including those that are 0. */
  readonly closed: ReadonlyMap<ClosureReason, number>;
}

/** The sums of all isolates. */
export function figuresOf({ total }: Tally): ServingFigures {
  const byScope = (name: "watchers" | "rounds" | "bytes"): ByScope => (
    { global: total(`${name} global`), local: total(`${name} local`) }
  );
  return {
    watchers: byScope("watchers"),
    rounds: byScope("rounds"),
    bytes: byScope("bytes"),
    slowReaders: total("slow readers"),
    refusedWatchers: total("refused watchers"),
    connections: total("connections"),
    closed: new Map(REASONS.map((reason) => [reason, total(`closed: ${reason}`)])),
  };
}

/** The watchers of all isolates. */
export function watchersOf({ total }: Tally): number {
  return total("watchers global") + total("watchers local");
}
