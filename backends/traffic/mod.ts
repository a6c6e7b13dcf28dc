/**
 * Counts of traffic, in any mode: the growth of kernel counters since the previous reading.
 *
 * In: counters of the kernel, service ports. Out: growth. May touch: nothing.
 */
import {
  collectRows,
  frontendsOf,
  type Protocol,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type TrafficReading,
  type TrafficRows,
} from "../../core/model/mod.ts";
import { type Clock, createTurns, joinFlat } from "../../platform/mod.ts";

interface ReadingsOptions {
  /** The counts since the last reading. */
  readonly rows: TrafficRows;
  readonly clock: Clock;
  /**
   * Reads all counters into the rows. Throws if the kernel cannot be read.
   * @param isFirst whether no earlier call has succeeded
   */
  readonly readAll: (isFirst: boolean) => Promise<void>;
  /** Runs one reading at a time; by default, each waits for the one before. */
  readonly inTurn?: <Result>(read: () => Promise<Result>) => Promise<Result>;
}

/** Readings of counters, of which the first only notes those of an earlier process and returns no traffic. */
export function createReadings({ rows, clock, readAll, inTurn = createTurns().take }: ReadingsOptions): {
  readonly start: () => Promise<void>;
  readonly read: () => Promise<TrafficReading>;
} {
  let isFirst = true;
  const readNow = async () => {
    const startedAtMs = clock.monotonic();
    await readAll(isFirst);
    const reading = rows.take(clock.monotonic() - startedAtMs);
    if (!isFirst) return reading;
    isFirst = false;
    return collectRows().take(reading.durationMs);
  };
  const read = () => inTurn(readNow);
  return {
    async start() {
      if (isFirst) await read();
    },
    read,
  };
}

/** Finds the service port of a frontend. */
interface FrontendIndex {
  /**
   * The service port that owns a frontend; undefined if none does.
   * @param address canonical; any address stands for a node port
   */
  find(address: string, protocol: Protocol, port: number | string): ServicePortKey | undefined;
}

/** Indexes the frontends of service ports. */
export function indexFrontends(servicePorts: Iterable<ServicePort>): FrontendIndex {
  const owners = new Map<string, ServicePortKey>();
  for (const servicePort of servicePorts) {
    const owner = servicePortKey(servicePort.name, servicePort.protocol);
    for (const { address, protocol, port } of frontendsOf(servicePort)) {
      owners.set(joinFlat(" ", address, protocol, port), owner);
    }
  }
  return {
    // A node port has no address of its own.
    find: (address, protocol, port) =>
      owners.get(`${address} ${protocol} ${port}`) ?? owners.get(` ${protocol} ${port}`),
  };
}

/** The service ports of frontends, indexed when the first is asked for. */
interface Owners extends FrontendIndex {
  /** Notes that the service ports have changed. */
  forget(): void;
}

/** Creates an index of the service ports of a mode. */
export function createOwners(of: { servicePorts(): Iterable<ServicePort> }): Owners {
  let index: FrontendIndex | undefined;
  return {
    find: (address, protocol, port) => (index ??= indexFrontends(of.servicePorts())).find(address, protocol, port),
    forget: () => void (index = undefined),
  };
}

/** The growth of counters of the kernel between readings. */
interface Growth<Key extends string | number = string> {
  /**
   * Notes a counter of the current reading; a key has two, of which the first counts packets only. Returns how much it
   * has grown since the previous one: all of it if it is new, or smaller than before and thus restarted.
   */
  note(which: "first" | "second", key: Key, packets: number, bytes: number): Grown | undefined;
  /** Ends a reading: counters that were not noted are forgotten. Calls `onForgotten` with the place of each. */
  endReading(onForgotten?: (place: number) => void): void;
}

/** How much a counter has grown. */
export interface Grown {
  /** The place of the counter in arrays: a number from 0 up, which belongs to its key until that is forgotten. */
  readonly place: number;
  readonly packets: number;
  readonly bytes: number;
}

const FIRST_CAPACITY = 64;

/** The numbers of a counter, in the array that all counters share: its two counts, and the reading in which it was noted. */
const FIRST = 0, PACKETS = 1, BYTES = 2, NOTED_IN = 3, NUMBERS = 4;

/**
 * Creates the state without counters. A counter takes some 130 bytes, or 70 with a number as its key: the key, and its numbers in
 * an array that all counters share.
 */
export function createGrowth<Key extends string | number = string>(): Growth<Key> {
  const places = new Map<Key, number>();
  const free: number[] = [];
  let numbers = new Float64Array(FIRST_CAPACITY * NUMBERS);
  let used = 0, reading = 0;

  const placeOf = (key: Key): number => {
    const known = places.get(key);
    if (known !== undefined) return known;
    const place = free.pop() ?? used++, at = place * NUMBERS;
    if (at >= numbers.length) {
      const larger = new Float64Array(2 * numbers.length);
      larger.set(numbers);
      numbers = larger;
    }
    numbers.fill(0, at, at + NUMBERS);
    places.set(copyOf(key), place);
    return place;
  };

  return {
    note(which, key, packets, bytes) {
      const place = placeOf(key), at = place * NUMBERS;
      numbers[at + NOTED_IN] = reading;
      const before = numbers[at + (which === "first" ? FIRST : PACKETS)]!;
      const hasRestarted = packets < before, grown = hasRestarted ? packets : packets - before;
      if (which === "first") {
        numbers[at + FIRST] = packets;
        return grown === 0 ? undefined : { place, packets: grown, bytes: 0 };
      }
      const grownBytes = hasRestarted ? bytes : bytes - numbers[at + BYTES]!;
      numbers[at + PACKETS] = packets;
      numbers[at + BYTES] = bytes;
      return grown === 0 ? undefined : { place, packets: grown, bytes: grownBytes };
    },
    endReading(onForgotten) {
      for (const [key, place] of places) {
        if (numbers[place * NUMBERS + NOTED_IN] === reading) continue;
        places.delete(key);
        free.push(place);
        onForgotten?.(place);
      }
      reading++;
    },
  };
}

/** A copy of a text, since a part of a line would keep the whole line in memory. */
function copyOf<Key extends string | number>(key: Key): Key {
  return typeof key === "string" ? joinFlat(" ", ...key.split(" ")) as Key : key;
}
