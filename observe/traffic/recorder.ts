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

/** The totals of an endpoint, and what the last reading added to them. */
interface EndpointRecord {
  connections: number;
  packets: number;
  bytes: number;
  addedConnections: number;
  addedPackets: number;
  addedBytes: number;
  /** The number of the reading that added last. */
  reading: number;
}

interface PortRecord extends EndpointRecord {
  readonly failures: Partial<Record<FailureReason, number>>;
  readonly endpoints: Map<string, EndpointRecord>;
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
    const fresh: PortRecord = { ...noEndpointTraffic(), failures: {}, endpoints: new Map() };
    record.ports.set(key, fresh);
    return fresh;
  };

  const kinds = TRAFFIC_KINDS.filter((kind) => coverage.kinds.includes(kind));
  const covered = (counts: Required<TrafficCounts>): TrafficCounts => {
    const { connections } = counts;
    return { connections, ...Object.fromEntries(kinds.map((kind) => [kind, counts[kind]])) };
  };
  const counted = (one: EndpointRecord, record: FamilyRecord): CountedTraffic => {
    const { connections, packets, bytes } = one;
    return { ...covered({ connections, packets, bytes }), perSecond: covered(ratesOf(one, record)) };
  };
  const none = counted(noEndpointTraffic(), NOTHING_READ);
  const portTraffic = (port: PortRecord | undefined, record: FamilyRecord): ServiceTraffic => ({
    ...(port === undefined ? none : counted(port, record)),
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
        if (to === undefined) port.endpoints.set(endpoint, to = noEndpointTraffic());
        for (const one of [port, to]) {
          add(one, record.reading, counts[3 * row]!, counts[3 * row + 1]!, counts[3 * row + 2]!);
        }
      });
      for (const key of new Set(ports)) {
        const current = endpointsOf(family, key), port = record.ports.get(key);
        if (port === undefined || current === undefined) continue;
        for (const endpoint of port.endpoints.keys()) if (!current.has(endpoint)) port.endpoints.delete(endpoint);
      }
      for (const { port: key, reason, packets } of failures) {
        const port = portOf(family, record, key);
        if (port) port.failures[reason] = (port.failures[reason] ?? 0) + packets;
      }
    },
    forget(family, keys) {
      for (const key of keys) families.get(family)?.ports.delete(key);
    },
    ofPort(family, key) {
      const record = families.get(family) ?? NOTHING_READ;
      return portTraffic(record.ports.get(key), record);
    },
    ofEndpoint(family, key, endpoint) {
      const record = families.get(family), to = record?.ports.get(key)?.endpoints.get(endpoint);
      return record && to ? counted(to, record) : none;
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

function noEndpointTraffic(): EndpointRecord {
  return {
    ...{ connections: 0, packets: 0, bytes: 0 },
    ...{ addedConnections: 0, addedPackets: 0, addedBytes: 0, reading: 0 },
  };
}

function add(to: EndpointRecord, reading: number, connections: number, packets: number, bytes: number): void {
  if (to.reading !== reading) to.addedConnections = to.addedPackets = to.addedBytes = 0;
  to.reading = reading;
  to.connections += connections;
  to.packets += packets;
  to.bytes += bytes;
  to.addedConnections += connections;
  to.addedPackets += packets;
  to.addedBytes += bytes;
}

/** What the last reading added, per second. */
function ratesOf(one: EndpointRecord, record: FamilyRecord): Required<TrafficCounts> {
  const grew = one.reading === record.reading && record.seconds > 0;
  const rate = (added: number) => grew ? added / record.seconds : 0;
  return {
    connections: rate(one.addedConnections),
    packets: rate(one.addedPackets),
    bytes: rate(one.addedBytes),
  };
}
