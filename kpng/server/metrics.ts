import type { Clock, Logger } from "../../platform/mod.ts";
import type { Subscription } from "./answers.ts";

/** The reasons why the server closes connections. */
export const REASONS = [
  "too many connections",
  "too many connections from one address",
  "no TLS handshake",
  "no HTTP/2 over TLS",
  "certificate of a client that is not let in",
  "client certificate that is no longer valid",
  "no HTTP/2 settings",
  "no call",
  "streams opened too fast",
  "streams reset too fast",
  "PING or SETTINGS flood",
  "too many frames",
  "broken frames",
  "too much unread data",
  "the client left",
  "no sign of life",
] as const;

/** One of these reasons. */
export type ClosureReason = typeof REASONS[number];

/** Reasons that well-behaved clients cause as well. */
const ORDINARY: ReadonlySet<ClosureReason> = new Set(["no call", "the client left", "no sign of life"]);

/** Counts and logs that the server has closed a connection; `address` is the client's. */
export function countClosed(
  reason: ClosureReason,
  address: string | undefined,
  { tally, logger }: { readonly tally: Tally; readonly logger: Logger },
): void {
  tally.add(`closed: ${reason}`, 1);
  // Without the address, so that an attacker with many addresses causes one line a minute.
  if (!ORDINARY.has(reason)) {
    logger.warn("closed gRPC connections", { reason, closed: tally.total(`closed: ${reason}`) });
  }
  logger.debug("closed a gRPC connection", { reason, address });
}

/** Current watchers by the scope of their state, other calls, and connections, including those without a handshake. */
const GAUGES = ["watchers global", "watchers local", "service calls", "connections"] as const;
/**
 * Ended rounds, bytes of messages (with gRPC's framing, without HTTP/2 and TLS), watchers that did not read or were refused at the
 * limit of their number, and connections closed by the server.
 */
const COUNTERS = [
  ...["rounds global", "rounds local", "bytes global", "bytes local", "slow readers", "refused watchers"] as const,
  ...REASONS.map((reason) => `closed: ${reason}` as const),
];
/** The name of a metric. */
export type Metric = typeof GAUGES[number] | typeof COUNTERS[number];

/** The metrics of one isolate, and the sums over all isolates, to which the limits apply. */
export interface Tally {
  add(name: Metric, count: number): void;
  /** The sum of all isolates. */
  total(name: Metric): number;
  addAddress(address: string, count: number): void;
  /** The connections from an address to all isolates. */
  ofAddress(address: string): number;
}

/** The metrics of some isolates in shared memory, one row each. */
export interface TallyMemory {
  readonly rows: number;
  /** A secret seed, so that no client can choose its slot. */
  readonly seed: number;
  readonly numbers: Float64Array<SharedArrayBuffer>;
}

/** Addresses that share a slot share its limit. */
const ADDRESS_SLOTS = 4096;
const COUNTERS_START = ADDRESS_SLOTS + GAUGES.length;
const ROW = COUNTERS_START + COUNTERS.length;
const POSITIONS: ReadonlyMap<Metric, number> = new Map(
  [...GAUGES, ...COUNTERS].map((name, i) => [name, ADDRESS_SLOTS + i]),
);

/** Allocates memory for the metrics of this many isolates. */
export function createTallyMemory(rows: number): TallyMemory {
  const [seed] = crypto.getRandomValues(new Uint32Array(1));
  const numbers = new Float64Array(new SharedArrayBuffer(rows * ROW * Float64Array.BYTES_PER_ELEMENT));
  return { rows, seed: seed!, numbers };
}

/** The tally of one isolate, the only one that writes this row. */
export function openTally({ rows, seed, numbers }: TallyMemory, row: number): Tally {
  const start = row * ROW;
  const add = (position: number, count: number) => void (numbers[start + position]! += count);
  const total = (position: number) => {
    let sum = 0;
    for (let at = position; at < rows * ROW; at += ROW) sum += numbers[at]!;
    return sum;
  };
  return {
    add: (name, count) => add(POSITIONS.get(name)!, count),
    total: (name) => total(POSITIONS.get(name)!),
    addAddress: (address, count) => add(slotOf(address, seed), count),
    ofAddress: (address) => total(slotOf(address, seed)),
  };
}

/** Clears the gauges of an isolate that has ended; its counters stay. */
export function clearGauges({ numbers }: TallyMemory, row: number): void {
  numbers.fill(0, row * ROW, row * ROW + COUNTERS_START);
}

/** FNV-1a. */
function slotOf(address: string, seed: number): number {
  let hash = seed ^ 0x811c9dc5;
  for (let i = 0; i < address.length; i++) hash = Math.imul(hash ^ address.charCodeAt(i), 0x01000193);
  return ((hash ^ hash >>> 15) >>> 0) % ADDRESS_SLOTS;
}

/** The watchers of all isolates. */
export function watchersOf({ total }: Tally): number {
  return total("watchers global") + total("watchers local");
}

/** Counts what one watcher receives. */
export interface WatcherTraffic {
  wrote(bytes: number): void;
  roundEnded(): void;
  /** The watcher has received everything up to this revision. */
  upToDate(revision: number): void;
  stalled(): void;
  leave(): void;
}

/** Adds a watcher to a tally and to those that changes must reach. */
export function joinTraffic(scope: Subscription["scope"], tally: Tally, lag: Lag): WatcherTraffic {
  tally.add(`watchers ${scope}`, 1);
  const { upToDate, leave } = lag.join();
  return {
    wrote: (count) => tally.add(`bytes ${scope}`, count),
    roundEnded: () => tally.add(`rounds ${scope}`, 1),
    upToDate,
    stalled: () => tally.add("slow readers", 1),
    leave() {
      tally.add(`watchers ${scope}`, -1);
      leave();
    },
  };
}

/** Measures how long each change takes to reach the last watcher. */
export interface Lag {
  /** The store has this new revision. */
  changed(revision: number): void;
  /** Adds a watcher. Changes wait for it once it has received a complete state. */
  join(): {
    /** The watcher has received everything up to this revision. */
    upToDate(revision: number): void;
    /** Like `upToDate`, but nothing was written: a worker without watchers. */
    skip(revision: number): void;
    /** Removes the watcher; no change waits for it any more. */
    leave(): void;
  };
}

interface Change {
  readonly revision: number;
  readonly atMs: number;
  without: number;
  writtenMs: number | undefined;
}

/** The maximum number of pending changes: a watcher that never requests its next round would keep all of them. */
const MOST_WAITING = 1000;

/** Options of `createLag`. */
export interface LagOptions {
  readonly clock: Clock;
  /** Takes the time in milliseconds from each change until it was written to the last watcher. */
  readonly onLag?: (lagMs: number) => void;
  /** Called when every watcher has received a revision; `wasWritten` if it was written to any. */
  readonly onReceived?: (revision: number, wasWritten: boolean) => void;
}

/** Tracks each change until it was written to the last watcher. */
export function createLag({ clock, onLag = () => {}, onReceived = () => {} }: LagOptions): Lag {
  let waiting: Change[] = [];
  let newest = 0;
  const following = new Set<{ readonly received: number }>();

  /** Marks the changes in the range (`after`, `upTo`] as received by one watcher. */
  const countOff = (after: number, upTo: number, writtenMs: number | undefined) => {
    for (let i = waiting.length - 1; i >= 0 && waiting[i]!.revision > after; i--) {
      const change = waiting[i]!;
      if (change.revision > upTo) continue;
      change.writtenMs = writtenMs ?? change.writtenMs;
      if (--change.without > 0) continue;
      if (change.writtenMs !== undefined) onLag(change.writtenMs - change.atMs);
      onReceived(change.revision, change.writtenMs !== undefined);
    }
    const first = waiting.findIndex(({ without }) => without > 0);
    if (first !== 0) waiting = first === -1 ? [] : waiting.slice(first);
  };

  return {
    changed(revision) {
      newest = revision;
      // An answer can contain the revision before the store announces it.
      let without = 0;
      for (const { received } of following) if (received < revision) without++;
      if (without === 0) {
        if (following.size > 0) onLag(0);
        onReceived(revision, following.size > 0);
        return;
      }
      waiting.push({ revision, atMs: clock.monotonic(), without, writtenMs: undefined });
      if (waiting.length > MOST_WAITING) waiting.shift();
    },
    join() {
      const own = { received: 0 };
      const received = (revision: number, writtenMs: number | undefined) => {
        if (!following.has(own)) {
          following.add(own);
          // Earlier changes do not wait for it.
          own.received = Math.max(revision, newest);
        } else if (revision > own.received) {
          countOff(own.received, revision, writtenMs);
          own.received = revision;
        }
      };
      return {
        upToDate: (revision) => received(revision, clock.monotonic()),
        skip: (revision) => received(revision, undefined),
        leave() {
          if (following.delete(own)) countOff(own.received, Infinity, undefined);
        },
      };
    },
  };
}
