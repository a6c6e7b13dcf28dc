import type { Family } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import type { ServicePortKey } from "./service_port.ts";

/**
 * The reasons why packets of new connections reached no endpoint:
 * - `no-endpoints`: rejected, since no endpoint is usable;
 * - `traffic-policy`: dropped by traffic policy Local, since this node has no usable endpoint;
 * - `source-range`: dropped, since the client is outside the load balancer's source ranges;
 * - `unanswered`: repeated, since the endpoint had not answered the first packet of a TCP connection.
 */
const FAILURE_REASONS = ["no-endpoints", "traffic-policy", "source-range", "unanswered"] as const;

/** One of `FAILURE_REASONS`. */
export type FailureReason = typeof FAILURE_REASONS[number];

/** The kinds of counts of a row, in the order of `TrafficReading.counts`. Packets and bytes include both directions. */
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

/** Packets of new connections to one service port that reached no endpoint, since the previous reading. */
const TRAFFIC_FAILURE = shape.record({
  port: shape.TEXT,
  reason: shape.oneOf(...FAILURE_REASONS),
  packets: shape.COUNT,
});

/** See `TRAFFIC_FAILURE`. */
type TrafficFailure = shape.TypeOf<typeof TRAFFIC_FAILURE>;

/** The traffic of one family since the previous reading, by service port and endpoint; unchanged counts are absent. */
export const TRAFFIC_READING = shape.record({
  durationMs: shape.FINITE,
  /** The `ServicePortKey` of each row. */
  ports: shape.list(shape.TEXT),
  /** The endpoint of each row, as `address:port`. */
  endpoints: shape.list(shape.TEXT),
  /** Three numbers for each row, see `TRAFFIC_KINDS`; 0 for a kind that the mode does not count. */
  counts: shape.satisfying<Float64Array>((counts) =>
    counts instanceof Float64Array && counts.every((count) => count >= 0 && count < Infinity)
  ),
  failures: shape.list(TRAFFIC_FAILURE),
});

/** See `TRAFFIC_READING`. */
export type TrafficReading = shape.TypeOf<typeof TRAFFIC_READING>;

/** Connections, and packets and bytes in both directions, if the mode counts them. Bytes include the IP headers. */
export interface TrafficCounts {
  readonly connections: number;
  readonly packets?: number;
  readonly bytes?: number;
}

/** Counts since this proxy started counting, and per second between the last two readings. */
export interface CountedTraffic extends TrafficCounts {
  readonly perSecond: TrafficCounts;
}

/** The traffic of a service port of one family. */
export interface ServiceTraffic extends CountedTraffic {
  /** Packets of new connections that reached no endpoint, by reason; absent if the mode counts none. */
  readonly failures?: Readonly<Partial<Record<FailureReason, number>>>;
}

/** Counts of service ports and endpoints. */
export interface CountsOfPorts {
  /** The traffic of a service port. */
  ofPort(family: Family, key: ServicePortKey): ServiceTraffic;
  /** The traffic of an endpoint (`address:port`) of a service port. */
  ofEndpoint(family: Family, key: ServicePortKey, endpoint: string): CountedTraffic;
  /** When the counters of a family were last read, in milliseconds of the monotonic clock; undefined if never. */
  lastReadMs(family: Family): number | undefined;
  /** Reads the counters now, unless that was done within the last second. Resolves when the counts are known. */
  refresh(): Promise<void>;
}

/** The kinds of counts, in their order in `TrafficReading.counts`. */
export const CONNECTIONS = 0, PACKETS = 1, BYTES = 2;

/** Collects the rows of readings. */
export interface TrafficRows {
  /** Adds to a count of an endpoint of a service port. */
  add(
    port: ServicePortKey,
    endpoint: string,
    kind: typeof CONNECTIONS | typeof PACKETS | typeof BYTES,
    by: number,
  ): void;
  fail(port: ServicePortKey, reason: FailureReason, packets: number): void;
  /** Returns the rows since the last call, also those of readings that failed halfway. */
  take(durationMs: number): TrafficReading;
}

/** Starts without rows. */
export function collectRows(): TrafficRows {
  let rows = noRows();
  return {
    add(port, endpoint, kind, by) {
      const { ports, endpoints, counts, rowOf } = rows;
      let ofPort = rowOf.get(port);
      if (ofPort === undefined) rowOf.set(port, ofPort = new Map());
      let row = ofPort.get(endpoint);
      if (row === undefined) {
        ofPort.set(endpoint, row = ports.length);
        ports.push(port);
        endpoints.push(endpoint);
        counts.push(0, 0, 0);
      }
      counts[3 * row + kind]! += by;
    },
    fail(port, reason, packets) {
      const { failures } = rows, id = `${reason} ${port}`;
      failures.set(id, { port, reason, packets: packets + (failures.get(id)?.packets ?? 0) });
    },
    take(durationMs) {
      const { ports, endpoints, counts, failures } = rows;
      rows = noRows();
      return { durationMs, ports, endpoints, counts: Float64Array.from(counts), failures: [...failures.values()] };
    },
  };
}

function noRows() {
  return {
    ports: [] as ServicePortKey[],
    endpoints: [] as string[],
    counts: [] as number[],
    rowOf: new Map<ServicePortKey, Map<string, number>>(),
    failures: new Map<string, TrafficFailure>(),
  };
}
