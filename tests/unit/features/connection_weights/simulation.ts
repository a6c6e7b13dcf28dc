/** A service whose endpoints have service times, and a balancer that sees its connections. */
import {
  type EndpointLoad,
  factorsOf,
  nextLoad,
  steppedFactors,
} from "../../../../features/connection_weights/decision.ts";
import { seeded } from "../../../fakes/random.ts";

/** The run of a simulation. Times are in seconds. */
export interface Simulation {
  /** Equal shares, the kernel's scheduler, or the weights of the feature. */
  readonly policy: "random" | "lc" | "weights";
  readonly seconds: number;
  /** The arrivals per second at a time. */
  readonly perSecond: (t: number) => number;
  /** The mean time for which each endpoint keeps a connection that arrives at a time. */
  readonly times: readonly ((t: number) => number)[];
  /** When an endpoint joins; 0 by default. */
  readonly startOf?: (endpoint: number) => number;
}

/** The results of a simulation. */
export interface Simulated {
  /** The share of an endpoint among the connections that arrived in a period. */
  share(endpoint: number, from: number, to: number): number;
  /** The rounds in which weights changed. */
  readonly changes: number;
  /** The most connections that an endpoint had at once. */
  mostOpenOf(endpoint: number): number;
  readonly mostOpen: number;
}

const ROUND_SECONDS = 2;

/** Runs a simulation, the same one each time. */
export function simulate({ policy, seconds, perSecond, times, startOf = () => 0 }: Simulation): Simulated {
  const random = seeded(7), all = [...times.keys()];
  const open = all.map(() => 0), opened = all.map(() => 0), mostOpen = all.map(() => 0);
  const ends: (readonly [at: number, endpoint: number])[] = [];
  const arrivals: (readonly [at: number, endpoint: number])[] = [];
  let factors: number[] = all.map(() => 1);
  let loads: (EndpointLoad | undefined)[] = all.map(() => undefined);
  let changes = 0, nextRound = ROUND_SECONDS;
  const exponential = (mean: number) => -Math.log(1 - random()) * mean;

  const decide = (t: number) => {
    loads = loads.map((load, i) =>
      t < startOf(i) ? undefined : nextLoad(load, { open: open[i]!, opened: opened[i]! }, ROUND_SECONDS)
    );
    const known = all.filter((i) => loads[i] !== undefined), present = known.map((i) => factors[i]!);
    const next = steppedFactors(factorsOf(known.map((i) => ({ weight: 1, load: loads[i]! }))), present);
    if (next === present) return;
    changes++;
    factors = all.map((i) => known.includes(i) ? next[known.indexOf(i)]! : 1);
  };
  const choose = (t: number): number => {
    const here = all.filter((i) => t >= startOf(i));
    if (policy === "lc") {
      const least = Math.min(...here.map((i) => open[i]!)), best = here.filter((i) => open[i] === least);
      return best[Math.floor(random() * best.length)]!;
    }
    const weights = here.map((i) => policy === "random" ? 1 : factors[i]!);
    let left = random() * weights.reduce((sum, weight) => sum + weight, 0);
    return here[weights.findIndex((weight) => (left -= weight) < 0)] ?? here.at(-1)!;
  };

  for (let t = exponential(1 / perSecond(0)); t < seconds; t += exponential(1 / perSecond(t))) {
    for (;;) {
      const endsAt = ends[0]?.[0] ?? Infinity;
      if (Math.min(endsAt, nextRound) > t) break;
      if (endsAt <= nextRound) open[takeFirst(ends)[1]]!--;
      else {
        if (policy === "weights") decide(nextRound);
        nextRound += ROUND_SECONDS;
      }
    }
    const endpoint = choose(t);
    opened[endpoint]!++;
    mostOpen[endpoint] = Math.max(mostOpen[endpoint]!, ++open[endpoint]!);
    arrivals.push([t, endpoint]);
    add(ends, [t + exponential(times[endpoint]!(t)), endpoint]);
  }
  return {
    share(endpoint, from, to) {
      const within = arrivals.filter(([at]) => at >= from && at < to);
      return within.filter(([, chosen]) => chosen === endpoint).length / within.length;
    },
    changes,
    mostOpenOf: (endpoint) => mostOpen[endpoint]!,
    mostOpen: Math.max(...mostOpen),
  };
}

type Heap = (readonly [at: number, endpoint: number])[];

function add(heap: Heap, item: Heap[number]): void {
  let i = heap.push(item) - 1;
  for (let parent = (i - 1) >> 1; i > 0 && heap[parent]![0] > item[0]; parent = (i - 1) >> 1) {
    heap[i] = heap[parent]!;
    i = parent;
  }
  heap[i] = item;
}

function takeFirst(heap: Heap): Heap[number] {
  const first = heap[0]!, last = heap.pop()!;
  if (heap.length === 0) return first;
  let i = 0;
  for (let child = 1; child < heap.length; child = 2 * i + 1) {
    if (child + 1 < heap.length && heap[child + 1]![0] < heap[child]![0]) child++;
    if (heap[child]![0] >= last[0]) break;
    heap[i] = heap[child]!;
    i = child;
  }
  heap[i] = last;
  return first;
}
