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

/** 1 ms, 2 ms, 4 ms … 16.4 s: kube-proxy's buckets for everything that is a sync or part of one. */
export const SYNC_BUCKETS: readonly number[] = Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power);

/**
 * kube-proxy's buckets for the network programming latency: 0, a quarter and half a second, every second to a minute,
 * every 5 seconds to two minutes, every half minute to five.
 */
export const PROGRAMMING_BUCKETS: readonly number[] = [
  0,
  ...steps(0.25, 0.25, 2),
  ...steps(1, 1, 59),
  ...steps(60, 5, 12),
  ...steps(120, 30, 7),
];

/** Makes the metrics of one registry, all under one prefix. */
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

/** Makes metrics whose names begin with `prefix`. */
export function metricMaker(registry: Registry, prefix: string): MetricMaker {
  return {
    counter: (name, help, labels = []) => counter(registry, { name: prefix + name, help, labels }),
    gauge: (name, help, labels = []) => gauge(registry, { name: prefix + name, help, labels }),
    histogram: (name, help, labels, buckets) => histogram(registry, { name: prefix + name, help, labels }, buckets),
  };
}

/** A counter without labels that someone else counts: `read` is asked at every scrape. */
export function counterReadAtScrape(registry: Registry, name: string, help: string, read: () => number): void {
  readWhenShown(registry, "counter", { name, help, labels: [] }, () => [[{}, read()]]);
}

/** A gauge without labels whose value is known elsewhere: `read` is asked at every scrape. */
export function gaugeReadAtScrape(registry: Registry, name: string, help: string, read: () => number): void {
  readWhenShown(registry, "gauge", { name, help, labels: [] }, () => [[{}, read()]]);
}

function steps(first: number, width: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => first + index * width);
}
