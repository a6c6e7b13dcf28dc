import type { TrafficCounts } from "./recorder.ts";

/** The counts of a place. */
export interface TableCounts {
  readonly total: Required<TrafficCounts>;
  /** What the last reading added, per second. */
  readonly perSecond: Required<TrafficCounts>;
}

/** Counts of many service ports and endpoints. Each is a number, its place in arrays that all share, and takes 52 bytes. */
export interface CountTable {
  /** Takes a place without counts. */
  create(): number;
  /** Frees a place. */
  remove(place: number): void;
  /** Adds to the counts of a place what reading number `reading` has found. */
  add(place: number, reading: number, connections: number, packets: number, bytes: number): void;
  /**
   * The counts of a place.
   * @param reading the number of the last reading
   * @param seconds the time between the last two readings; 0 if there were no two
   */
  counted(place: number, reading: number, seconds: number): TableCounts;
}

/** Connections, packets and bytes: in total, and of the last reading that added some. */
const COLUMNS = 6;
const FIRST_CAPACITY = 64;

/** A table without places. */
export function createCountTable(): CountTable {
  const free: number[] = [];
  let used = 0;
  let counts = new Float64Array(COLUMNS * FIRST_CAPACITY);
  let readings = new Uint32Array(FIRST_CAPACITY);

  return {
    create() {
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
    remove: (place) => void free.push(place),
    add(place, reading, connections, packets, bytes) {
      const total = COLUMNS * place, last = total + COLUMNS / 2;
      if (readings[place] !== reading) counts.fill(0, last, total + COLUMNS);
      readings[place] = reading;
      counts[total]! += connections;
      counts[total + 1]! += packets;
      counts[total + 2]! += bytes;
      counts[last]! += connections;
      counts[last + 1]! += packets;
      counts[last + 2]! += bytes;
    },
    counted(place, reading, seconds) {
      const [connections = 0, packets = 0, bytes = 0, ...added] = counts.subarray(
        COLUMNS * place,
        COLUMNS * (place + 1),
      );
      const grew = readings[place] === reading && seconds > 0;
      const [newConnections = 0, newPackets = 0, newBytes = 0] = added.map((count) => grew ? count / seconds : 0);
      return {
        total: { connections, packets, bytes },
        perSecond: { connections: newConnections, packets: newPackets, bytes: newBytes },
      };
    },
  };
}
