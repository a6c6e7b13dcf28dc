/**
 * Counters, gauges and histograms, exposed in Prometheus' text format, and read by what exports them elsewhere.
 *
 * A client library would cost 5 MB of memory on every node, most of it for features that Sluice does not use:
 * summaries, process clusters, pushing.
 */
import { type Distribution, labelsInText, labelText, metricText, type ShownMetric } from "./exposition_text.ts";

/** A value for each label. */
export type Labels<Label extends string> = Readonly<Record<Label, string>>;

/** A value that only grows. */
export interface Counter<Label extends string> {
  /** Adds `by`, 1 by default. Throws a RangeError if it is negative. */
  inc(labels: Labels<Label>, by?: number): void;
}

/** A value that goes up and down. */
export interface Gauge<Label extends string> {
  set(labels: Labels<Label>, value: number): void;
}

/** Observations counted by upper bound. */
export interface Histogram<Label extends string> {
  observe(labels: Labels<Label>, value: number): void;
}

/** A metric in a registry. */
type Metric = ShownMetric & {
  /** Resets every value. */
  reset(): void;
};

/** The value of one series of a metric. */
export interface SeriesReading<Value> {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: Value;
}

/** A metric with its current values. */
export type MetricReading =
  & { readonly name: string; readonly help: string }
  & ({ readonly type: "counter" | "gauge"; readonly series: readonly SeriesReading<number>[] } | {
    readonly type: "histogram";
    /** The upper bounds of the buckets, ascending, without +Inf. */
    readonly bounds: readonly number[];
    readonly series: readonly SeriesReading<Distribution>[];
  });

/** Metrics that are exposed together, in the order of their registration. */
export interface Registry {
  /** Registers a metric. Throws if its name is taken. */
  add(metric: Metric): void;
  /** Returns all metrics in the text format. */
  expose(): string;
  /** Returns all metrics as data. */
  read(): readonly MetricReading[];
  /** Resets every value. */
  reset(): void;
}

/** The name of a metric, its help text, and its labels. */
export interface MetricDescription<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
}

/** Creates an empty registry. */
export function createRegistry(): Registry {
  const metrics = new Map<string, Metric>();
  return {
    add(metric) {
      if (metrics.has(metric.name)) throw new Error(`metric ${metric.name} is registered already`);
      metrics.set(metric.name, metric);
    },
    expose: () => [...metrics.values()].map(metricText).join("\n"),
    read: () => [...metrics.values()].map(reading),
    reset: () => metrics.forEach((metric) => metric.reset()),
  };
}

/** Registers a counter. One without labels starts at 0, others without samples. */
export function counter<Label extends string>(
  registry: Registry,
  description: MetricDescription<Label>,
): Counter<Label> {
  const values = valuesOf(registry, "counter", description);
  return {
    inc(labels, by = 1) {
      if (!(by >= 0)) throw new RangeError(`counter ${description.name} cannot grow by ${by}`);
      const key = labelText(description.labels, labels);
      values.set(key, (values.get(key) ?? 0) + by);
    },
  };
}

/** Registers a gauge. One without labels starts at 0, others without samples. */
export function gauge<Label extends string>(registry: Registry, description: MetricDescription<Label>): Gauge<Label> {
  const values = valuesOf(registry, "gauge", description);
  return {
    set: (labels, value) => void values.set(labelText(description.labels, labels), value),
  };
}

/** Registers a metric whose samples are kept elsewhere: `read` is called whenever the registry is exposed or read. */
export function readWhenShown<Label extends string>(
  registry: Registry,
  type: "counter" | "gauge",
  { name, help, labels }: MetricDescription<Label>,
  read: () => Iterable<readonly [Labels<Label>, number]>,
): void {
  const series = () => [...read()].map(([given, value]) => [labelText(labels, given), value] as const);
  registry.add({ name, help, type, series, reset() {} });
}

/** Registers a histogram. `buckets` are its upper bounds, ascending, without +Inf. */
export function histogram<Label extends string>(
  registry: Registry,
  { name, help, labels }: MetricDescription<Label>,
  buckets: readonly number[],
): Histogram<Label> {
  const bounds = [...buckets, Infinity];
  const series = new Map<string, { readonly counts: number[]; sum: number }>();
  registry.add({
    ...{ name, help, type: "histogram", bounds: buckets, series: () => series },
    reset: () => series.clear(),
  });
  return {
    observe(given, value) {
      const key = labelText(labels, given);
      let of = series.get(key);
      if (of === undefined) series.set(key, of = { counts: bounds.map(() => 0), sum: 0 });
      of.counts[bounds.findIndex((bound) => value <= bound)]!++;
      of.sum += value;
    },
  };
}

function valuesOf(
  registry: Registry,
  type: "counter" | "gauge",
  { name, help, labels }: MetricDescription<string>,
): Map<string, number> {
  const values = new Map<string, number>();
  const reset = () => {
    values.clear();
    if (labels.length === 0) values.set("", 0);
  };
  reset();
  registry.add({ name, help, type, series: () => values, reset });
  return values;
}

function reading(metric: Metric): MetricReading {
  const { name, help } = metric;
  const valued = <Value>(series: Iterable<readonly [string, Value]>): readonly SeriesReading<Value>[] =>
    [...series].map(([labels, value]) => ({ labels: labelsInText(labels), value }));
  return metric.type === "histogram"
    ? { name, help, type: metric.type, bounds: metric.bounds, series: valued(metric.series()) }
    : { name, help, type: metric.type, series: valued(metric.series()) };
}
