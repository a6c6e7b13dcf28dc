/** How new connections are spread over endpoints; without a `Balance` by the mode's default, with equal weights. */
import { splitHostPort } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import { type EndpointIndex, slotCounts, slotTable } from "./slot_table.ts";

/** The algorithms that are not tied to a mode; the first is the default, except in IPVS mode. */
export const BALANCE_ALGORITHMS = ["random", "round-robin", "consistent-hash", "least-connections"] as const;

/** The schedulers of IPVS in Linux 6 (net/netfilter/ipvs/Kconfig). */
export const IPVS_SCHEDULERS = [
  ...["dh", "fo", "lblc", "lblcr", "lc", "mh", "nq"],
  ...["ovf", "rr", "sed", "sh", "twos", "wlc", "wrr"],
] as const;

/** An algorithm, or in IPVS mode the name of a scheduler. */
export type BalanceAlgorithm = typeof BALANCE_ALGORITHMS[number] | typeof IPVS_SCHEDULERS[number];

/** The kinds of `BalanceHash`; the first is the default. */
export const BALANCE_HASHES = ["flow", "client"] as const;

/** The part of a packet that `consistent-hash` hashes: the client's address and port, or its address alone. */
export type BalanceHash = typeof BALANCE_HASHES[number];

/** The maximum weight of an endpoint. */
export const MAX_WEIGHT = 1000;

const WEIGHTS = shape.list(shape.integer(0, MAX_WEIGHT));

/** The decision of the planner for one service port. */
export const BALANCE = shape.record({
  algorithm: shape.oneOf<BalanceAlgorithm>(...BALANCE_ALGORITHMS, ...IPVS_SCHEDULERS),
  /** Present for `consistent-hash` alone. */
  hash: shape.optional(shape.oneOf(...BALANCE_HASHES)),
  /** The weights of `clusterEndpoints`, in their order: whole numbers, not all 0. Absent if all are equal. */
  clusterWeights: shape.optional(WEIGHTS),
  /** The weights of `localEndpoints`, likewise. */
  localWeights: shape.optional(WEIGHTS),
  /**
   * The number of slots of each of `clusterEndpoints` in a table: few while their loads are equal.
   * Present for `least-connections` if this node counts the connections, and not the kernel's scheduler.
   */
  clusterSlots: shape.optional(WEIGHTS),
  /** The same for `localEndpoints`. */
  localSlots: shape.optional(WEIGHTS),
});

/** See `BALANCE`. */
export interface Balance extends shape.TypeOf<typeof BALANCE> {}

/** The maximum sum of weights without common factors up to which each weight is a number of slots; shares are rounded above it. */
const MOST_WEIGHTED_SLOTS = 1000;

/**
 * The slots of `consistent-hash` by the greatest number of endpoints: few for few endpoints, because each slot is an element in the
 * kernel for every frontend of a service; otherwise about ten or more for each endpoint. A number of endpoints beyond a limit
 * moves to another size, which moves flows, so the limits are far apart. The numbers have many divisors, so that equal
 * shares are mostly exact.
 */
const CONSISTENT_HASH_SLOTS: readonly { readonly endpoints: number; readonly slots: number }[] = [
  { endpoints: 4, slots: 12 },
  { endpoints: 16, slots: 240 },
  { endpoints: 64, slots: 840 },
  { endpoints: 256, slots: 2520 },
  { endpoints: 1024, slots: 10_080 },
];

/** The maximum number of endpoints for `consistent-hash`: computing a table takes quadratic time. */
export const MOST_CONSISTENT_HASH_ENDPOINTS = CONSISTENT_HASH_SLOTS.at(-1)!.endpoints;

/** The minimum number of slots of `consistent-hash` with weights, so that each share is exact to within half a percent. */
const LEAST_WEIGHTED_HASH_SLOTS = 240;

/** The number of slots of an endpoint of weight 1 once loads differ: an eighth of its share is one of them. */
const COUNTED_SLOTS = 8;

/** The maximum number of endpoints whose connections are counted, so that each has four slots. */
export const MOST_COUNTED_ENDPOINTS = MOST_WEIGHTED_SLOTS / 4;

/**
 * The slots of a list whose connections are counted. Each is an element that comparisons with the kernel read, so there are
 * only as many as the weights need while no load differs.
 * @param factors by which the weight of each endpoint is multiplied; undefined for 1
 */
export function countedSlots(list: BalancedList, factors: ReadonlyMap<string, number> | undefined): readonly number[] {
  const { endpoints, weights } = list;
  const factorOf = (endpoint: string) => factors?.get(endpoint) ?? 1;
  if (endpoints.every((endpoint) => factorOf(endpoint) === 1)) {
    return slotCounts(endpoints, weights, weights === undefined ? endpoints.length : weightedSlots(weights));
  }
  const wanted = endpoints.map((endpoint, i) => (weights?.[i] ?? 1) * factorOf(endpoint));
  return slotCounts(endpoints, wanted, mostCountedSlots(list));
}

function mostCountedSlots({ endpoints, weights }: BalancedList): number {
  const sum = weights === undefined ? endpoints.length : reducedSum(weights);
  return Math.min(COUNTED_SLOTS * sum, MOST_WEIGHTED_SLOTS);
}

/** The endpoints of one traffic policy and their weights. */
export interface BalancedList {
  readonly endpoints: readonly string[];
  /** Undefined if all are equal. */
  readonly weights: readonly number[] | undefined;
  /** The number of slots of each, if that does not follow from the weights. */
  readonly slots?: readonly number[] | undefined;
}

/** Whether the connections of a service port are counted. */
export function isCounted({ clusterSlots, localSlots }: Balance): boolean {
  return clusterSlots !== undefined || localSlots !== undefined;
}

/** The index of the endpoint of each slot; undefined if each endpoint is a slot of its own, in the given order. */
export function balanceTable({ algorithm }: Balance, list: BalancedList): readonly EndpointIndex[] | undefined {
  const { endpoints, weights, slots } = list;
  return hasTable(algorithm, list)
    ? rememberedTable(endpoints, slots ?? weights, tableSlots(algorithm, list))
    : undefined;
}

/** The maximum number of slots of a list of endpoints, at any load: one for each endpoint, unless there is a table. */
export function balanceSlots(balance: Balance | undefined, list: BalancedList): number {
  if (list.endpoints.length === 0) return 0;
  if (list.slots !== undefined) return mostCountedSlots(list);
  const hasOne = balance !== undefined && hasTable(balance.algorithm, list);
  return hasOne ? tableSlots(balance.algorithm, list) : list.endpoints.length;
}

function hasTable(algorithm: BalanceAlgorithm, { weights, slots }: BalancedList): boolean {
  if (algorithm === "consistent-hash") return true;
  return slots === undefined ? weights !== undefined : slots.some((count) => count !== 1);
}

function tableSlots(algorithm: BalanceAlgorithm, { endpoints, weights, slots }: BalancedList): number {
  if (slots !== undefined) return sumOf(slots);
  if (algorithm === "consistent-hash") {
    const bySize = CONSISTENT_HASH_SLOTS.find((size) => endpoints.length <= size.endpoints) ??
      CONSISTENT_HASH_SLOTS.at(-1)!;
    const least = weights === undefined ? 0 : LEAST_WEIGHTED_HASH_SLOTS;
    return Math.max(bySize.slots, least);
  }
  return weightedSlots(weights!);
}

/** The last tables: all ports of a service mostly have the same endpoints, and a change needs the table before and after. */
const remembered = new Map<string, readonly EndpointIndex[]>();
const MOST_REMEMBERED = 8;

function rememberedTable(
  endpoints: readonly string[],
  weights: BalancedList["weights"],
  slots: number,
): readonly EndpointIndex[] {
  // A table follows from addresses; ports make no difference.
  const addresses = endpoints.map((endpoint) => splitHostPort(endpoint).address);
  const key = [slots, ...addresses, ...weights ?? []].join();
  let table = remembered.get(key);
  if (table === undefined) {
    table = slotTable(endpoints, weights, slots);
    if (remembered.size >= MOST_REMEMBERED) remembered.delete(remembered.keys().next().value!);
    remembered.set(key, table);
  }
  return table;
}

/** The smallest number of slots for exact weights, unless it is too large. */
function weightedSlots(weights: readonly number[]): number {
  const sum = reducedSum(weights);
  const used = weights.filter((weight) => weight > 0).length;
  return sum <= MOST_WEIGHTED_SLOTS ? sum : Math.max(MOST_WEIGHTED_SLOTS, used);
}

/** The sum of weights without common factors. */
function reducedSum(weights: readonly number[]): number {
  return sumOf(weights) / weights.reduce(greatestCommonDivisor, 0);
}

function sumOf(weights: readonly number[]): number {
  return weights.reduce((total, weight) => total + weight, 0);
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/**
 * The share of new connections of each endpoint of a list, in its order; the sum is 1. Undefined if it depends on the load
 * or on the client (the schedulers of IPVS that count connections, or hash addresses without a table of their own).
 */
export function balanceShares(balance: Balance | undefined, list: BalancedList): readonly number[] | undefined {
  const { endpoints, slots } = list, weights = slots ?? list.weights;
  if (endpoints.length === 0) return [];
  const algorithm = balance?.algorithm ?? "random";
  if (algorithm === "consistent-hash") {
    const table = balanceTable(balance!, list)!;
    const counts = new Array<number>(endpoints.length).fill(0);
    for (const index of table) counts[index]!++;
    return counts.map((count) => count / table.length);
  }
  if (!SPREADS_BY_WEIGHT.has(algorithm) && slots === undefined) return undefined;
  if (weights === undefined) return endpoints.map(() => 1 / endpoints.length);
  const sum = sumOf(weights);
  return weights.map((weight) => weight / sum);
}

/** The algorithms whose shares follow from the weights alone. */
const SPREADS_BY_WEIGHT: ReadonlySet<BalanceAlgorithm> = new Set<BalanceAlgorithm>([
  ...["random", "round-robin", "rr", "wrr"] as const,
]);
