/**
 * From counts of connections to factors of weights.
 *
 * The kernel's scheduler `lc` gives each connection to the endpoint with the fewest. Here the kernel draws at random by
 * weights, which stay for seconds, so the weights are those with which the endpoints would have equally many connections,
 * relative to their configured weights, at the end of that time: each endpoint gets as many new ones as it closes, and those
 * that it lacks.
 */

interface EndpointCounts {
  readonly open: number;
  readonly opened: number;
}

/** The load of an endpoint, from its counts over time. */
export interface EndpointLoad {
  readonly counts: EndpointCounts;
  /** The number of open connections, on average of the last seconds. */
  readonly averageOpen: number;
  /** Connections per second, likewise. */
  readonly openedPerSecond: number;
  readonly endedPerSecond: number;
  /** The time since its first counts, in seconds. */
  readonly ageSeconds: number;
}

/** The time over which loads are averaged, in seconds: half of a change shows after two thirds of it. */
const MEMORY_SECONDS = 4;

/** The load after new counts, some seconds after those of `before`; after the first counts if there were none. */
export function nextLoad(before: EndpointLoad | undefined, counts: EndpointCounts, seconds: number): EndpointLoad {
  if (before === undefined) {
    return { counts, averageOpen: counts.open, openedPerSecond: 0, endedPerSecond: 0, ageSeconds: 0 };
  }
  const weight = 1 - Math.exp(-seconds / MEMORY_SECONDS);
  const mix = (average: number, value: number) => average + weight * (value - average);
  const opened = Math.max(0, counts.opened - before.counts.opened);
  const ended = Math.max(0, opened - (counts.open - before.counts.open));
  return {
    counts,
    averageOpen: mix(before.averageOpen, counts.open),
    openedPerSecond: mix(before.openedPerSecond, opened / seconds),
    endedPerSecond: mix(before.endedPerSecond, ended / seconds),
    ageSeconds: before.ageSeconds + seconds,
  };
}

/** An endpoint of a service port. */
export interface WeighedEndpoint {
  readonly weight: number;
  readonly load: EndpointLoad;
}

/**
 * The time within which endpoints are to have equally many connections, in seconds: two rounds, so that one of them corrects
 * the other, or a quarter of the life of a connection, since differences between long ones stay for a while.
 */
const SHORTEST_HORIZON = 4;
const LONGEST_HORIZON = 30;
const LIVES_PER_HORIZON = 1 / 4;
/**
 * The number of connections by which endpoints differ by chance. It is added to the counts of all: without it, a service
 * with two connections would be rewritten with each of them.
 */
const CHANCE = 2;
/** The bounds of an endpoint's share of new connections, in relation to its configured one. */
const LEAST_FACTOR = 1 / 8;
const MOST_FACTOR = 4;
/** An endpoint that joins others gets at most its configured share for this time, since its first connections say nothing yet. */
export const NEW_SECONDS = 20;

/** The factors of the configured weights, in the order of the endpoints. */
export function factorsOf(endpoints: readonly WeighedEndpoint[]): readonly number[] {
  const sum = (valueOf: (endpoint: WeighedEndpoint) => number) =>
    endpoints.reduce((total, endpoint) => total + valueOf(endpoint), 0);
  const open = sum(({ load }) => load.averageOpen), ended = sum(({ load }) => load.endedPerSecond);
  const horizon = Math.min(LONGEST_HORIZON, Math.max(SHORTEST_HORIZON, LIVES_PER_HORIZON * open / ended || 0));
  // With many connections, they differ by the square root of their number.
  const chance = CHANCE * (1 + Math.sqrt(open / endpoints.length));
  const arrivals = horizon * sum(({ load }) => load.openedPerSecond) + chance * endpoints.length;
  // The endings per open connection and second: of all, then of each, which is that of all as long as it has few connections.
  const endingsOfAll = ended / (open + CHANCE / 8);
  const areAllNew = endpoints.every(({ load }) => load.ageSeconds < NEW_SECONDS);
  const weights = sum(({ weight }) => weight);
  const courses = endpoints.map(({ weight, load: { counts, averageOpen, endedPerSecond, ageSeconds } }) => {
    const endings = (endedPerSecond + CHANCE * endingsOfAll) / (averageOpen + CHANCE) * horizon;
    const fair = arrivals * weight / weights;
    return {
      weight,
      fair,
      /** Of today's connections, those that are still open at the horizon; and of each that arrives until then, this part. */
      kept: counts.open * Math.exp(-endings),
      stay: endings < 1e-6 ? 1 : (1 - Math.exp(-endings)) / endings,
      least: fair * LEAST_FACTOR,
      most: fair * (ageSeconds < NEW_SECONDS && !areAllNew ? 1 : MOST_FACTOR),
    };
  });
  const arrivalsAt = (level: number) =>
    courses.map(({ weight, kept, stay, least, most }) =>
      Math.min(most, Math.max(least, (weight * level - kept) / stay))
    );
  // The level of connections per weight at which as many arrive as expected; bisected, since the sum grows with it.
  let low = 0, high = Math.max(...courses.map(({ weight, kept, stay, most }) => (most * stay + kept) / weight));
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (arrivalsAt(middle).reduce((total, each) => total + each, 0) < arrivals) low = middle;
    else high = middle;
  }
  return arrivalsAt(high).map((each, i) => each / courses[i]!.fair);
}

/** Factors are powers of the square root of 2, and change only if one of them is off by a whole step, or all return to 1. */
const STEPS_PER_DOUBLING = 2;

/** Factors so close to 1 are equal, in steps. */
const EVEN = 0.3;

const stepOf = (factor: number) => Math.log2(factor) * STEPS_PER_DOUBLING;

/** The next factors in use, from those wanted; the same array as before if no difference is worth a change in the kernel. */
export function steppedFactors(wanted: readonly number[], present: readonly number[]): readonly number[] {
  const isFar = wanted.some((factor, i) => Math.abs(stepOf(factor) - stepOf(present[i]!)) >= 1);
  const isEven = wanted.every((factor) => Math.abs(stepOf(factor)) < EVEN) && present.some((factor) => factor !== 1);
  if (!isFar && !isEven) return present;
  return wanted.map((factor) => 2 ** (Math.round(stepOf(factor)) / STEPS_PER_DOUBLING));
}
