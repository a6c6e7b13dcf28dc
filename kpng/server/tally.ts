import type { Subscription } from "./answers.ts";
import { type ClosureReason, REASONS } from "./closed_connections.ts";

/** A figure that grows. */
export type Counter =
  | `${"rounds" | "bytes"} ${Subscription["scope"]}`
  | "slow readers"
  | "refused watchers"
  | `closed: ${ClosureReason}`;

/** A figure that also falls. */
export type Gauge = `watchers ${Subscription["scope"]}` | "service calls" | "connections";

/** The figures of one isolate, and the sums of all, which the limits apply to. */
export interface Tally {
  add(name: Counter | Gauge, count: number): void;
  /** The sum of all isolates. */
  total(name: Counter | Gauge): number;
  addAddress(address: string, count: number): void;
  /** The connections from an address to all isolates. */
  ofAddress(address: string): number;
}

/** The figures of some isolates in shared memory, a row for each. */
export interface TallyMemory {
  readonly rows: number;
  /** Spreads the addresses over the slots in a way that no client knows. */
  readonly seed: number;
  readonly numbers: Float64Array<SharedArrayBuffer>;
}

const SCOPES = ["global", "local"] as const;
const GAUGES: readonly Gauge[] = [
  ...SCOPES.map((scope) => `watchers ${scope}` as const),
  "service calls",
  "connections",
];
const COUNTERS: readonly Counter[] = [
  ...SCOPES.flatMap((scope) => [`rounds ${scope}`, `bytes ${scope}`] as const),
  "slow readers",
  "refused watchers",
  ...REASONS.map((reason) => `closed: ${reason}` as const),
];
/** Addresses that share a slot share its limit. */
const ADDRESS_SLOTS = 4096;
const COUNTERS_START = ADDRESS_SLOTS + GAUGES.length;
const ROW = COUNTERS_START + COUNTERS.length;
const POSITIONS: ReadonlyMap<Counter | Gauge, number> = new Map([
  ...GAUGES.map((name, i) => [name, ADDRESS_SLOTS + i] as const),
  ...COUNTERS.map((name, i) => [name, COUNTERS_START + i] as const),
]);

/** Memory for the figures of this many isolates. */
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

/** Clears the gauges of an isolate that has ended; what it has counted stays. */
export function clearGauges({ numbers }: TallyMemory, row: number): void {
  numbers.fill(0, row * ROW, row * ROW + COUNTERS_START);
}

/** FNV-1a. */
function slotOf(address: string, seed: number): number {
  let hash = seed ^ 0x811c9dc5;
  for (let i = 0; i < address.length; i++) hash = Math.imul(hash ^ address.charCodeAt(i), 0x01000193);
  return ((hash ^ hash >>> 15) >>> 0) % ADDRESS_SLOTS;
}
