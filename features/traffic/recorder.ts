import {
  type CountedTraffic,
  type CountsOfPorts,
  type FailureReason,
  type Family,
  type ServicePortKey,
  type ServiceTraffic,
  TRAFFIC_KINDS,
  type TrafficCounts,
  type TrafficCoverage,
  type TrafficKind,
  type TrafficReading,
  WHOLE_TRAFFIC,
} from "../../core/model/mod.ts";
import type { Clock } from "../../platform/mod.ts";

/** Adds up the readings of the workers. */
export interface TrafficRecorder extends Omit<CountsOfPorts, "refresh"> {
  readonly coverage: TrafficCoverage;
  note(family: Family, reading: TrafficReading): void;
  forget(family: Family, keys: Iterable<ServicePortKey>): void;
  /** Iterates over all service ports with traffic. */
  ports(): Iterable<RecordedPort>;
}

/** A service port with traffic. */
export interface RecordedPort {
  readonly family: Family;
  readonly key: ServicePortKey;
  readonly traffic: ServiceTraffic;
  /** The endpoints with traffic, by `address:port`. */
  readonly endpoints: Iterable<readonly [string, CountedTraffic]>;
}

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

/**
 * A recorder without traffic. The counts of deleted endpoints are dropped, but stay in the counts of the service port.
 * @param endpointsOf the endpoints of a known service port; undefined for an unknown one, whose counts are ignored
 * @param coverage the part of the traffic that the mode counts
 */
export function createTrafficRecorder(
  clock: Clock,
  endpointsOf: (family: Family, key: ServicePortKey) => ReadonlySet<string> | undefined,
  coverage: TrafficCoverage = WHOLE_TRAFFIC,
): TrafficRecorder {
  const families = new Map<Family, FamilyRecord>();
  const table = createCountTable();
  const familyOf = (family: Family): FamilyRecord => {
    const record = families.get(family) ?? nothingRead();
    families.set(family, record);
    return record;
  };
  const portOf = (family: Family, record: FamilyRecord, key: ServicePortKey): PortRecord | undefined => {
    const known = record.ports.get(key);
    if (known !== undefined || endpointsOf(family, key) === undefined) return known;
    const fresh: PortRecord = { place: table.create(), endpoints: new Map(), failures: NO_FAILURES };
    record.ports.set(key, fresh);
    return fresh;
  };

  const counted = createCountReader(table, coverage);
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
        for (const place of [port.place, to]) table.add(place, record.reading, counts, row);
      });
      for (const key of new Set(ports)) {
        const current = endpointsOf(family, key), port = record.ports.get(key);
        if (port !== undefined && current !== undefined) keepEndpoints(port, current, table);
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

function nothingRead(): FamilyRecord {
  return { ports: new Map(), reading: 0, lastReadMs: undefined, seconds: 0 };
}

/** Drops the counts of all other endpoints of a service port. */
function keepEndpoints({ endpoints }: PortRecord, current: ReadonlySet<string>, table: CountTable): void {
  for (const [endpoint, place] of endpoints) {
    if (current.has(endpoint)) continue;
    endpoints.delete(endpoint);
    table.remove(place);
  }
}

type CountTable = ReturnType<typeof createCountTable>;

/** Reads the covered counts of a place, all 0 without one. */
function createCountReader(table: CountTable, coverage: TrafficCoverage) {
  const kinds = [...TRAFFIC_KINDS.entries()].filter(([, kind]) => coverage.kinds.includes(kind));
  const covered = (countOf: (column: number) => number): TrafficCounts =>
    Object.fromEntries(kinds.map(([column, kind]) => [kind, countOf(column)])) as Record<TrafficKind, number>;
  return (place: number | undefined, { reading, seconds }: FamilyRecord): CountedTraffic => {
    const total = (column: number) => place === undefined ? 0 : table.total(place, column);
    const perSecond = (column: number) =>
      place === undefined || seconds === 0 ? 0 : table.added(place, column, reading) / seconds;
    return { ...covered(total), perSecond: covered(perSecond) };
  };
}

const NOTHING_READ = nothingRead();
const NO_FAILURES = {};

/** Connections, packets and bytes: in total, and of the last reading that added some. */
const KINDS = TRAFFIC_KINDS.length, COLUMNS = 2 * KINDS;
const FIRST_CAPACITY = 64;

/** Counts of many service ports and endpoints, in arrays that all share: 52 bytes each. */
function createCountTable() {
  const free: number[] = [];
  let used = 0;
  let counts = new Float64Array(COLUMNS * FIRST_CAPACITY);
  let readings = new Uint32Array(FIRST_CAPACITY);

  return {
    /** Takes a place without counts. */
    create(): number {
      const place = free.pop() ?? used++;
      if (place === readings.length) {
        const [smallCounts, smallReadings] = [counts, readings];
        counts = new Float64Array(2 * smallCounts.length);
        counts.set(smallCounts);
        readings = new Uint32Array(2 * smallReadings.length);
        readings.set(smallReadings);
      }
      counts.fill(0, COLUMNS * place, COLUMNS * (place + 1));
      readings[place] = 0;
      return place;
    },
    /** Frees a place. */
    remove: (place: number) => void free.push(place),
    /** Adds to the counts of a place what reading number `reading` has found in a row. */
    add(place: number, reading: number, found: Float64Array, row: number) {
      const total = COLUMNS * place, last = total + KINDS;
      if (readings[place] !== reading) counts.fill(0, last, last + KINDS);
      readings[place] = reading;
      for (let column = 0; column < KINDS; column++) {
        const count = found[KINDS * row + column]!;
        counts[total + column]! += count;
        counts[last + column]! += count;
      }
    },
    total: (place: number, column: number): number => counts[COLUMNS * place + column]!,
    /** The counts that reading number `reading` has added. */
    added: (place: number, column: number, reading: number): number =>
      readings[place] === reading ? counts[COLUMNS * place + KINDS + column]! : 0,
  };
}
