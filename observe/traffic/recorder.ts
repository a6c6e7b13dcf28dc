import {
  type FailureReason,
  type Family,
  type ServicePortKey,
  TRAFFIC_KINDS,
  type TrafficCoverage,
  type TrafficReading,
  WHOLE_TRAFFIC,
} from "../../core/model/mod.ts";
import type { Clock } from "../../platform/mod.ts";
import { createCountTable, type TableCounts } from "./count_table.ts";

/**
 * Connections, and packets and bytes of both directions, as far as the mode counts them. Bytes include the IP headers.
 */
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
  /**
   * Packets of new connections that reached no endpoint, by reason, without reasons that have not occurred; absent if
   * the mode counts none.
   */
  readonly failures?: Readonly<Partial<Record<FailureReason, number>>>;
}

/** Adds up the readings of the workers. */
export interface TrafficRecorder {
  /** The part of the traffic that is counted. */
  readonly coverage: TrafficCoverage;
  note(family: Family, reading: TrafficReading): void;
  /** Forgets service ports that are gone. */
  forget(family: Family, keys: Iterable<ServicePortKey>): void;
  /** The traffic of a service port. */
  ofPort(family: Family, key: ServicePortKey): ServiceTraffic;
  /** The traffic of an endpoint (`address:port`) of a service port. */
  ofEndpoint(family: Family, key: ServicePortKey, endpoint: string): CountedTraffic;
  /** Iterates over all service ports with traffic. */
  ports(): Iterable<RecordedPort>;
  /** When the counters of a family were last read, in milliseconds of the monotonic clock; undefined if never. */
  lastReadMs(family: Family): number | undefined;
}

/** A service port with traffic. */
export interface RecordedPort {
  readonly family: Family;
  readonly key: ServicePortKey;
  readonly traffic: ServiceTraffic;
  /** The endpoints with traffic, by `address:port`. */
  readonly endpoints: Iterable<readonly [string, CountedTraffic]>;
}

/** Options of `createTrafficRecorder`. */
export interface TrafficRecorderOptions {
  readonly clock: Clock;
  /** The endpoints of a known service port; undefined for an unknown one, whose counts are ignored. */
  readonly endpointsOf: (family: Family, key: ServicePortKey) => ReadonlySet<string> | undefined;
  /** The part of the traffic that the mode counts; all of it by default. */
  readonly coverage?: TrafficCoverage;
}

/** Places in the table of counts. */
interface PortRecord {
  readonly place: number;
  readonly endpoints: Map<string, number>;
  failures: Readonly<Partial<Record<FailureReason, number>>>;
}

interface FamilyRecord {
  readonly ports: Map<ServicePortKey, PortRecord>;
  reading: number;
  lastReadMs: number | undefined;
  /** The time between the last two readings, in seconds; 0 before the second one. */
  seconds: number;
}

/** A recorder without traffic. Endpoints that are gone are forgotten; their counts stay in those of the service port. */
export function createTrafficRecorder(
  { clock, endpointsOf, coverage = WHOLE_TRAFFIC }: TrafficRecorderOptions,
): TrafficRecorder {
  const families = new Map<Family, FamilyRecord>();
  const table = createCountTable();
  const familyOf = (family: Family): FamilyRecord => {
    const known = families.get(family);
    if (known) return known;
    const fresh: FamilyRecord = { ports: new Map(), reading: 0, lastReadMs: undefined, seconds: 0 };
    families.set(family, fresh);
    return fresh;
  };
  const portOf = (family: Family, record: FamilyRecord, key: ServicePortKey): PortRecord | undefined => {
    const known = record.ports.get(key);
    if (known !== undefined || endpointsOf(family, key) === undefined) return known;
    const fresh: PortRecord = { place: table.create(), endpoints: new Map(), failures: NO_FAILURES };
    record.ports.set(key, fresh);
    return fresh;
  };

  const kinds = TRAFFIC_KINDS.filter((kind) => coverage.kinds.includes(kind));
  const covered = (counts: Required<TrafficCounts>): TrafficCounts => {
    const { connections } = counts;
    return { connections, ...Object.fromEntries(kinds.map((kind) => [kind, counts[kind]])) };
  };
  const counted = (place: number | undefined, { reading, seconds }: FamilyRecord): CountedTraffic => {
    const { total, perSecond } = place === undefined ? NOTHING_COUNTED : table.counted(place, reading, seconds);
    return { ...covered(total), perSecond: covered(perSecond) };
  };
  const portTraffic = (port: PortRecord | undefined, record: FamilyRecord): ServiceTraffic => ({
    ...counted(port?.place, record),
    ...(coverage.failures.length > 0 && { failures: { ...port?.failures } }),
  });

  return {
    coverage,
    note(family, { ports, endpoints, counts, failures }) {
      const record = familyOf(family);
      const nowMs = clock.monotonic();
      record.seconds = record.lastReadMs === undefined ? 0 : (nowMs - record.lastReadMs) / 1000;
      record.lastReadMs = nowMs;
      record.reading++;
      ports.forEach((key, row) => {
        const port = portOf(family, record, key);
        if (port === undefined) return;
        const endpoint = endpoints[row]!;
        let to = port.endpoints.get(endpoint);
        if (to === undefined) port.endpoints.set(endpoint, to = table.create());
        for (const place of [port.place, to]) {
          table.add(place, record.reading, counts[3 * row]!, counts[3 * row + 1]!, counts[3 * row + 2]!);
        }
      });
      for (const key of new Set(ports)) {
        const current = endpointsOf(family, key), port = record.ports.get(key);
        if (port === undefined || current === undefined) continue;
        for (const [endpoint, place] of port.endpoints) {
          if (current.has(endpoint)) continue;
          port.endpoints.delete(endpoint);
          table.remove(place);
        }
      }
      for (const { port: key, reason, packets } of failures) {
        const port = portOf(family, record, key);
        if (port) port.failures = { ...port.failures, [reason]: (port.failures[reason] ?? 0) + packets };
      }
    },
    forget(family, keys) {
      const ports = families.get(family)?.ports;
      for (const key of keys) {
        const port = ports?.get(key);
        if (port === undefined) continue;
        ports!.delete(key);
        for (const place of [port.place, ...port.endpoints.values()]) table.remove(place);
      }
    },
    ofPort(family, key) {
      const record = families.get(family) ?? NOTHING_READ;
      return portTraffic(record.ports.get(key), record);
    },
    ofEndpoint(family, key, endpoint) {
      const record = families.get(family) ?? NOTHING_READ;
      return counted(record.ports.get(key)?.endpoints.get(endpoint), record);
    },
    *ports() {
      for (const [family, record] of families) {
        for (const [key, port] of record.ports) {
          const endpoints = [...port.endpoints].map(([endpoint, to]) => [endpoint, counted(to, record)] as const);
          yield { family, key, traffic: portTraffic(port, record), endpoints };
        }
      }
    },
    lastReadMs: (family) => families.get(family)?.lastReadMs,
  };
}

const NOTHING_READ: FamilyRecord = { ports: new Map(), reading: 0, lastReadMs: undefined, seconds: 0 };
const NO_COUNTS = { connections: 0, packets: 0, bytes: 0 };
const NOTHING_COUNTED: TableCounts = { total: NO_COUNTS, perSecond: NO_COUNTS };
const NO_FAILURES = {};
