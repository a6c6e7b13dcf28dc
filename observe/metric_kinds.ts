import {
  type Counter,
  counter,
  type Gauge,
  gauge,
  type Histogram,
  histogram,
  readWhenShown,
  type Registry,
} from "./exposition.ts";

/** 1 ms, 2 ms, 4 ms … 16.4 s: kube-proxy's buckets for the durations of syncs and their parts. */
export const SYNC_BUCKETS: readonly number[] = Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power);

/**
 * kube-proxy's buckets for the network programming latency: 0, 0.25 and 0.5 s, every second up to a minute, every 5
 * seconds up to two minutes, every 30 seconds up to five.
 */
export const PROGRAMMING_BUCKETS: readonly number[] = [
  0,
  ...steps(0.25, 0.25, 2),
  ...steps(1, 1, 59),
  ...steps(60, 5, 12),
  ...steps(120, 30, 7),
];

/** Creates metrics in one registry, all with the same prefix. */
export interface MetricMaker {
  counter<Label extends string = never>(name: string, help: string, labels?: readonly Label[]): Counter<Label>;
  gauge<Label extends string = never>(name: string, help: string, labels?: readonly Label[]): Gauge<Label>;
  histogram<Label extends string>(
    name: string,
    help: string,
    labels: readonly Label[],
    buckets: readonly number[],
  ): Histogram<Label>;
}

/** Returns a maker of metrics whose names begin with `prefix`. */
export function metricMaker(registry: Registry, prefix: string): MetricMaker {
  return {
    counter: (name, help, labels = []) => counter(registry, { name: prefix + name, help, labels }),
    gauge: (name, help, labels = []) => gauge(registry, { name: prefix + name, help, labels }),
    histogram: (name, help, labels, buckets) => histogram(registry, { name: prefix + name, help, labels }, buckets),
  };
}

/** Registers a counter without labels that is counted elsewhere: `read` is called at every scrape. */
export function counterReadAtScrape(registry: Registry, name: string, help: string, read: () => number): void {
  readWhenShown(registry, "counter", { name, help, labels: [] }, () => [[{}, read()]]);
}

/** Registers a gauge without labels whose value is kept elsewhere: `read` is called at every scrape. */
export function gaugeReadAtScrape(registry: Registry, name: string, help: string, read: () => number): void {
  readWhenShown(registry, "gauge", { name, help, labels: [] }, () => [[{}, read()]]);
}

function steps(first: number, width: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => first + index * width);
}
