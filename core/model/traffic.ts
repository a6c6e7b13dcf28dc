import type { ServicePortKey } from "./service_port.ts";

/**
 * Why packets of new connections reached no endpoint:
 * - `no-endpoints`: rejected, since no endpoint is usable;
 * - `traffic-policy`: dropped by traffic policy Local, since this node has no usable endpoint;
 * - `source-range`: dropped, since the client is outside the load balancer's source ranges;
 * - `unanswered`: repeated, since the endpoint had not answered the first packet of a TCP connection.
 */
export const FAILURE_REASONS = ["no-endpoints", "traffic-policy", "source-range", "unanswered"] as const;

/** One of `FAILURE_REASONS`. */
export type FailureReason = typeof FAILURE_REASONS[number];

/** The kinds of counts of a row, in their order in `TrafficReading.counts`. Packets and bytes are those of both directions. */
export const TRAFFIC_KINDS = ["connections", "packets", "bytes"] as const;

/** One of `TRAFFIC_KINDS`. */
export type TrafficKind = typeof TRAFFIC_KINDS[number];

/** The part of the traffic that can be counted in a proxy mode. */
export interface TrafficCoverage {
  readonly kinds: readonly TrafficKind[];
  readonly failures: readonly FailureReason[];
  /** The part that cannot be counted, and why: `bytes: the rules see only …`; absent if there is none. */
  readonly gap?: string;
}

/** The coverage of a mode that counts everything. */
export const WHOLE_TRAFFIC: TrafficCoverage = { kinds: TRAFFIC_KINDS, failures: FAILURE_REASONS };

/** The traffic of one family since the previous reading: only what has grown, by service port and endpoint. */
export interface TrafficReading {
  /** The duration of the reading. */
  readonly durationMs: number;
  /** The service port of each row. */
  readonly ports: readonly ServicePortKey[];
  /** The endpoint of each row, as `address:port`. */
  readonly endpoints: readonly string[];
  /** Three numbers for each row, see `TRAFFIC_KINDS`; 0 for a kind that the mode does not count. */
  readonly counts: Float64Array;
  readonly failures: readonly TrafficFailure[];
}

/** Packets of new connections to one service port that reached no endpoint, since the previous reading. */
export interface TrafficFailure {
  readonly port: ServicePortKey;
  readonly reason: FailureReason;
  readonly packets: number;
}
