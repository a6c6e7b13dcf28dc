/** The messages between the main isolate and a family's relay worker: plain data, distinguished by `type`. */
import type { RelaySettings } from "../core/channel/mod.ts";
import type { FamilyDelta, RelayPorts, SyncProblem, TrafficReading } from "../core/model/mod.ts";
import type { Family, Level } from "../platform/mod.ts";
import type { RelayFigures, RelayPlacement } from "../relay/mod.ts";

/** The first message: starts the relay. */
export interface RelayStart {
  readonly type: "start";
  readonly family: Family;
  readonly placement: RelayPlacement;
  readonly settings: RelaySettings;
  readonly logLevel: Level;
  readonly logFormat: "text" | "json";
}

/** A message to a relay worker. */
export type ToRelay =
  | RelayStart
  /** Apply a delta; answered with `applied` of its revision. */
  | { readonly type: "apply"; readonly delta: FamilyDelta }
  /** Answered with `figures` of the same number. */
  | { readonly type: "figures"; readonly number: number }
  /** Answered with `traffic` of the same number. */
  | { readonly type: "traffic"; readonly number: number }
  /** Close all listeners, wait a little for open connections, then end; answered with `stopped`. */
  | { readonly type: "stop" }
  /** Answered with `pong`. */
  | { readonly type: "ping" };

/** A message of a relay worker. */
export type FromRelay =
  | RelayApplied
  | { readonly type: "figures"; readonly number: number; readonly figures: RelayFigures }
  | { readonly type: "traffic"; readonly number: number; readonly reading: TrafficReading | undefined }
  | { readonly type: "stopped" }
  | { readonly type: "pong" };

/** The result of a delta. */
export interface RelayApplied {
  readonly type: "applied";
  readonly revision: number;
  /** The ports of each service port of the delta's `set`, in its order; undefined if the relay does not serve it. */
  readonly ports: readonly (RelayPorts | undefined)[];
  /** The service ports without a listener. */
  readonly problems: readonly SyncProblem[];
  /** Whether a service port outside the delta has got a listener that it lacked before. */
  readonly recovered: boolean;
}
