/**
 * How new connections are spread over the endpoints of a service port. A service port without a `Balance` has the mode's
 * default with equal weights.
 */
import { type EndpointIndex, slotTable } from "./slot_table.ts";

/** The algorithms that are not tied to a mode; the first is the default, except in IPVS mode. */
export const BALANCE_ALGORITHMS = ["random", "round-robin", "maglev", "least-connections"] as const;

/** The schedulers of IPVS in Linux 6 (net/netfilter/ipvs/Kconfig). */
export const IPVS_SCHEDULERS = [
  ...["dh", "fo", "lblc", "lblcr", "lc", "mh", "nq"],
  ...["ovf", "rr", "sed", "sh", "twos", "wlc", "wrr"],
] as const;

/** An algorithm, or in IPVS mode the name of a scheduler. */
export type BalanceAlgorithm = typeof BALANCE_ALGORITHMS[number] | typeof IPVS_SCHEDULERS[number];

/** The kinds of `BalanceHash`; the first is the default. */
export const BALANCE_HASHES = ["flow", "client"] as const;

/** The part of a packet that `maglev` hashes: the client's address and port, or its address alone. */
export type BalanceHash = typeof BALANCE_HASHES[number];

/** The decision of the planner for one service port. */
export interface Balance {
  readonly algorithm: BalanceAlgorithm;
  /** Present for `maglev` alone. */
  readonly hash?: BalanceHash;
  /** The weights of `clusterEndpoints`, in their order: whole numbers, not all 0. Absent if all are equal. */
  readonly clusterWeights?: readonly number[];
  /** The weights of `localEndpoints`, likewise. */
  readonly localWeights?: readonly number[];
}

/** The greatest weight of an endpoint. */
export const MAX_WEIGHT = 1000;

/** Weights whose sum, without common factors, is at most this are exact in a table; others to within half of its inverse. */
const MOST_WEIGHTED_SLOTS = 1000;

/**
 * The slots of `maglev` by the greatest number of endpoints: few for few endpoints, because each slot is an element in the
 * kernel for every frontend of a service; otherwise about ten or more for each endpoint. A number of endpoints beyond a limit
 * moves to another size, which moves flows, so the limits are far apart. The numbers have many divisors, so that equal
 * shares are mostly exact.
 */
const MAGLEV_SLOTS: readonly { readonly endpoints: number; readonly slots: number }[] = [
  { endpoints: 4, slots: 12 },
  { endpoints: 16, slots: 240 },
  { endpoints: 64, slots: 840 },
  { endpoints: 256, slots: 2520 },
  { endpoints: 1024, slots: 10_080 },
];

/** The greatest number of endpoints that `maglev` serves: the effort for a table grows with the square of their number. */
export const MOST_MAGLEV_ENDPOINTS = MAGLEV_SLOTS.at(-1)!.endpoints;

/** The least slots of `maglev` with weights, so that each share is exact to within half a percent. */
const LEAST_WEIGHTED_MAGLEV_SLOTS = 240;

/** The endpoints of one traffic policy and their weights. */
export interface BalancedList {
  readonly endpoints: readonly string[];
  /** Undefined if all are equal. */
  readonly weights: readonly number[] | undefined;
}

/**
 * The table of a list of endpoints: the index of the endpoint of each slot. A number from the hash or from a counter selects the slot.
 * Undefined if each endpoint is a slot of its own, in the given order.
 */
export function balanceTable({ algorithm }: Balance, list: BalancedList): readonly EndpointIndex[] | undefined {
  const { endpoints, weights } = list;
  if (algorithm === "maglev") {
    const bySize = MAGLEV_SLOTS.find((size) => endpoints.length <= size.endpoints) ?? MAGLEV_SLOTS.at(-1)!;
    const least = weights === undefined ? 0 : LEAST_WEIGHTED_MAGLEV_SLOTS;
    return slotTable(endpoints, weights, Math.max(bySize.slots, least));
  }
  return weights === undefined ? undefined : slotTable(endpoints, weights, weightedSlots(weights));
}

/** The least number of slots with which weights are exact, if that is not too large. */
function weightedSlots(weights: readonly number[]): number {
  const divisor = weights.reduce(greatestCommonDivisor, 0);
  const sum = weights.reduce((total, weight) => total + weight, 0) / divisor;
  const used = weights.filter((weight) => weight > 0).length;
  return sum <= MOST_WEIGHTED_SLOTS ? sum : Math.max(MOST_WEIGHTED_SLOTS, used);
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/**
 * The share of new connections of each endpoint of a list, in its order; the sum is 1. Undefined if it depends on the load
 * or on the client (the schedulers of IPVS that count connections, or hash addresses without a table of their own).
 */
export function balanceShares(balance: Balance | undefined, list: BalancedList): readonly number[] | undefined {
  const { endpoints, weights } = list;
  if (endpoints.length === 0) return [];
  const algorithm = balance?.algorithm ?? "random";
  if (algorithm === "maglev") {
    const table = balanceTable(balance!, list)!;
    const counts = new Array<number>(endpoints.length).fill(0);
    for (const index of table) counts[index]!++;
    return counts.map((count) => count / table.length);
  }
  if (!SPREADS_BY_WEIGHT.has(algorithm)) return undefined;
  if (weights === undefined) return endpoints.map(() => 1 / endpoints.length);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** The algorithms whose shares follow from the weights alone. */
const SPREADS_BY_WEIGHT: ReadonlySet<BalanceAlgorithm> = new Set<BalanceAlgorithm>([
  ...["random", "round-robin", "rr", "wrr"] as const,
]);
