/**
 * Tables that map the slots of a hash or of a random number to endpoints. All nodes compute the same table from the same endpoints: a
 * change of this file would send flows to other endpoints while a cluster is being upgraded, so the tests hold its output.
 */
import { splitHostPort } from "../../platform/mod.ts";

/** The index of an endpoint in its list. */
export type EndpointIndex = number;

/**
 * Assigns `slots` slots to endpoints in proportion to their weights, to the nearest slot; every endpoint with a weight
 * gets at least one if there are enough slots. Most slots keep their endpoint when endpoints are added or removed.
 *
 * This is rendezvous hashing with quotas: each slot in turn goes to the endpoint with the greatest hash of slot and endpoint,
 * among those with slots left. With ten endpoints it moves half as many slots as Maglev's own permutations do, and its shares
 * are as even. Endpoints are identified by address, so that a client reaches the same pod at all ports of a service.
 * @param weights one for each endpoint, not all 0; undefined if they are equal
 */
export function slotTable(
  endpoints: readonly string[],
  weights: readonly number[] | undefined,
  slots: number,
): readonly EndpointIndex[] {
  const hashes = endpoints.map((endpoint) => hashOf(splitHostPort(endpoint).address));
  const left = quotas(hashes, weights, slots);
  let candidates = [...endpoints.keys()].filter((index) => left[index]! > 0);
  const table = new Array<EndpointIndex>(slots);
  for (let slot = 0; slot < slots; slot++) {
    const salt = mix(slot + 1);
    let best = candidates[0]!, bestScore = -1;
    for (const index of candidates) {
      const score = mix(hashes[index]! ^ salt);
      if (score <= bestScore) continue;
      best = index;
      bestScore = score;
    }
    table[slot] = best;
    if (--left[best]! === 0) candidates = candidates.filter((index) => index !== best);
  }
  return table;
}

/** The number of slots that `slotTable` gives each endpoint. */
export function slotCounts(
  endpoints: readonly string[],
  weights: readonly number[] | undefined,
  slots: number,
): readonly number[] {
  return quotas(endpoints.map((endpoint) => hashOf(splitHostPort(endpoint).address)), weights, slots);
}

/** The number of slots of each endpoint: its share rounded down, plus one for the largest remainders. */
function quotas(hashes: readonly number[], weights: readonly number[] | undefined, slots: number): number[] {
  // The most common case, without the sorting below: at a start, there are thousands of tables.
  if (weights === undefined && slots % hashes.length === 0) return hashes.map(() => slots / hashes.length);
  const weightOf = (index: number) => weights?.[index] ?? 1;
  const sum = hashes.reduce((total, _, index) => total + weightOf(index), 0);
  const exact = hashes.map((_, index) => slots * weightOf(index) / sum);
  const used = exact.filter((share) => share > 0).length;
  const least = used <= slots ? 1 : 0;
  const counts = exact.map((share) => share === 0 ? 0 : Math.max(least, Math.floor(share)));
  const remainder = (index: number) => exact[index]! - counts[index]!;
  const order = [...hashes.keys()].filter((index) => exact[index]! > 0)
    .sort((a, b) => remainder(b) - remainder(a) || hashes[a]! - hashes[b]! || a - b);
  let missing = slots - counts.reduce((total, count) => total + count, 0);
  for (let i = 0; missing > 0; i = (i + 1) % order.length, missing--) counts[order[i]!]!++;
  // An endpoint that got a whole slot for a fraction takes it from the endpoint with the most slots.
  while (missing < 0) {
    const most = counts.indexOf(Math.max(...counts));
    counts[most]!--;
    missing++;
  }
  return counts;
}

/** A hash of 32 bits: FNV-1a, mixed. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** A permutation of 32-bit numbers in which every bit of the result depends on all bits (Chris Wellons' lowbias32). */
function mix(number: number): number {
  let hash = Math.imul(number ^ (number >>> 16), 0x7feb352d);
  hash = Math.imul(hash ^ (hash >>> 15), 0x846ca68b);
  return (hash ^ (hash >>> 16)) >>> 0;
}
