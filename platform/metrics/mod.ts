/**
 * Counters, gauges and histograms, exposed in Prometheus' text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/), and readable as data for other exporters.
 *
 * A client library would cost 5 MB of memory on every node, most of it for features that Sluice does not use:
 * summaries, process clusters, pushing.
 *
 * In: observations. Out: text, or readings. May touch: nothing.
 */

type Labels<Label extends string> = Readonly<Record<Label, string>>;

interface Counter<Label extends string> {
  /** Adds `by`, 1 by default. Throws a RangeError if it is negative. */
  inc(labels: Labels<Label>, by?: number): void;
}

interface Gauge<Label extends string> {
  set(labels: Labels<Label>, value: number): void;
}

/** Observations counted by upper bound. */
interface Histogram<Label extends string> {
  observe(labels: Labels<Label>, value: number): void;
}

/** The value of one series of a metric. */
interface SeriesReading<Value> {
  readonly labels: Labels<string>;
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

/** Observations counted by upper bound. */
interface Distribution {
  /** The number of observations in each bucket, not cumulative; the last one has no upper bound. */
  readonly counts: readonly number[];
  readonly sum: number;
}

interface Metric {
  readonly name: string;
  read(): MetricReading;
  reset(): void;
}

/** Metrics that are exposed together, in the order of their registration. */
export interface Registry {
  /** The reading of this metric at the end of the last run of this process, from which its counts continue. */
  earlier(name: string): MetricReading | undefined;
  /** Registers a metric. Throws if its name is taken. */
  add(metric: Metric): void;
  /** Returns all metrics in the text format. */
  expose(): string;
  /** Returns all metrics as data. */
  read(): readonly MetricReading[];
  reset(): void;
}

/** Creates an empty registry. @param earlier the readings of the last run of this process, whose counts it continues */
export function createRegistry(earlier: readonly MetricReading[] = []): Registry {
  const metrics = new Map<string, Metric>();
  const read = () => Array.from(metrics.values(), (metric) => metric.read());
  return {
    earlier: (name) => earlier.find((one) => one.name === name),
    add(metric) {
      if (metrics.has(metric.name)) throw new Error(`metric ${metric.name} is registered already`);
      metrics.set(metric.name, metric);
    },
    expose: () => read().map(metricText).join("\n"),
    read,
    reset: () => metrics.forEach((metric) => metric.reset()),
  };
}

/** Registers a counter. One without labels starts at 0, others without samples. */
export function counter<Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  labels: readonly Label[] = [],
): Counter<Label> {
  const seriesOf = addNumbers(registry, "counter", name, help, labels);
  for (const { labels, value } of earlierCounts(registry, name)) seriesOf(labels).value = value;
  return {
    inc(labels, by = 1) {
      if (!(by >= 0)) throw new RangeError(`counter ${name} cannot grow by ${by}`);
      seriesOf(labels).value += by;
    },
  };
}

/** Registers a gauge. One without labels starts at 0, others without samples. */
export function gauge<Label extends string = never>(
  registry: Registry,
  name: string,
  help: string,
  labels: readonly Label[] = [],
): Gauge<Label> {
  const seriesOf = addNumbers(registry, "gauge", name, help, labels);
  return { set: (labels, value) => void (seriesOf(labels).value = value) };
}

/** A metric that is read at every scrape, with its labels: one value, none if it is unknown, or one for each series. */
type ReadMetric = readonly [
  type: "counter" | "gauge",
  name: string,
  help: string,
  read: () => number | undefined | readonly (readonly [Labels<string>, number])[],
  ...labels: readonly string[],
];

/**
 * Registers metrics whose values are stored elsewhere and read at every scrape.
 * @param ofRun whether counters begin at 0 with each run of the process
 */
export function addReadings(registry: Registry, metrics: readonly ReadMetric[], ofRun = true): void {
  for (const [type, name, help, read, ...labels] of metrics) {
    const before = type === "counter" && ofRun ? earlierCounts(registry, name) : [];
    const keyOf = (of: Labels<string>) => labels.map((label) => of[label]).join("\0");
    const counted = new Map(before.map(({ labels, value }) => [keyOf(labels), value]));
    const series = () => {
      const shown = read() ?? [];
      const all = typeof shown === "number" ? [[{}, shown] as const] : shown;
      return all.map(([given, value]) => ({
        labels: inOrder(labels, given),
        value: value + (counted.get(keyOf(given)) ?? 0),
      }));
    };
    registry.add({ name, read: () => ({ name, help, type, series: series() }), reset() {} });
  }
}

function earlierCounts(registry: Registry, name: string): readonly SeriesReading<number>[] {
  const before = registry.earlier(name);
  return before?.type === "counter" ? before.series : [];
}

/** Registers a histogram. `buckets` are its upper bounds, ascending, without +Inf. */
export function histogram<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labels: readonly Label[],
  buckets: readonly number[],
): Histogram<Label> {
  const bounds = [...buckets, Infinity];
  const { all, seriesOf } = createSeries(labels, () => ({ counts: bounds.map(() => 0), sum: 0 }));
  registry.add({
    name,
    read: () => ({ name, help, type: "histogram", bounds: buckets, series: [...all.values()] }),
    reset: () => all.clear(),
  });
  const before = registry.earlier(name);
  for (const { labels, value: { counts, sum } } of before?.type === "histogram" ? before.series : []) {
    seriesOf(labels).value = { counts: [...counts], sum };
  }
  return {
    observe(given, value) {
      const { value: of } = seriesOf(given);
      of.counts[bounds.findIndex((bound) => value <= bound)]!++;
      of.sum += value;
    },
  };
}

function addNumbers(
  registry: Registry,
  type: "counter" | "gauge",
  name: string,
  help: string,
  labels: readonly string[],
) {
  const { all, seriesOf } = createSeries(labels, () => 0);
  const reset = () => {
    all.clear();
    if (labels.length === 0) seriesOf({});
  };
  reset();
  registry.add({ name, read: () => ({ name, help, type, series: [...all.values()] }), reset });
  return seriesOf;
}

/** The series of a metric; `seriesOf` adds one with the value `first()` for new labels. */
function createSeries<Value>(names: readonly string[], first: () => Value) {
  const all = new Map<string, { readonly labels: Labels<string>; value: Value }>();
  const seriesOf = (labels: Labels<string>) => {
    const key = names.map((name) => labels[name]).join("\0");
    let series = all.get(key);
    if (series === undefined) all.set(key, series = { labels: inOrder(names, labels), value: first() });
    return series;
  };
  return { all, seriesOf };
}

function inOrder(names: readonly string[], labels: Labels<string>): Labels<string> {
  return Object.fromEntries(names.map((name) => [name, labels[name]!]));
}

/** The content type of the text format. */
export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Returns the HELP, TYPE and sample lines of a metric, newlines included. */
function metricText(metric: MetricReading): string {
  const { name, help, type } = metric;
  const lines: string[] = [`# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`];
  const add = (suffix: string, labels: Labels<string>, value: number) => {
    const text = Object.entries(labels).map(([label, value]) => `${label}="${escapeValue(value)}"`).join(",");
    lines.push(`${name}${suffix}${text === "" ? "" : `{${text}}`} ${numberText(value)}\n`);
  };
  if (metric.type !== "histogram") {
    for (const { labels, value } of metric.series) add("", labels, value);
    return lines.join("");
  }
  for (const { labels, value: { counts, sum } } of metric.series) {
    let below = 0;
    [...metric.bounds, Infinity].forEach((bound, i) => {
      below += counts[i]!;
      add("_bucket", { le: numberText(bound), ...labels }, below);
    });
    add("_sum", labels, sum);
    add("_count", labels, below);
  }
  return lines.join("");
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeValue(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}

function numberText(value: number): string {
  return Math.abs(value) === Infinity ? (value > 0 ? "+Inf" : "-Inf") : String(value);
}

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

function steps(first: number, width: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => first + index * width);
}
