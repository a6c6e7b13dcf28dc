/**
 * Counters, gauges and histograms, exposed in Prometheus' text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 * A client library would cost 5 MB of memory on every node, most of it for features that Sluice does not use:
 * summaries, process clusters, pushing.
 */

/** The content type of the text format. */
export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

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

/** A sample: the suffix of the metric's name, the labels, and the value. */
type Sample = readonly [suffix: string, labels: string, value: number];

/** A metric in a registry. */
interface Metric {
  /** Returns its HELP, TYPE and sample lines, newlines included. */
  expose(): string;
  /** Resets every value. */
  reset(): void;
}

/** Metrics that are exposed together, in the order of their registration. */
export interface Registry {
  /** Registers a metric. Throws if its name is taken. */
  add(name: string, metric: Metric): void;
  /** Returns all metrics in the text format. */
  expose(): string;
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
    add(name, metric) {
      if (metrics.has(name)) throw new Error(`metric ${name} is registered already`);
      metrics.set(name, metric);
    },
    expose: () => [...metrics.values()].map((metric) => metric.expose()).join("\n"),
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

/** Registers a metric whose samples are kept elsewhere: `read` is called whenever the registry is exposed. */
export function readWhenShown<Label extends string>(
  registry: Registry,
  type: "counter" | "gauge",
  { name, help, labels }: MetricDescription<Label>,
  read: () => Iterable<readonly [Labels<Label>, number]>,
): void {
  registry.add(name, {
    expose: () => exposed(name, type, help, [...read()].map(([given, value]) => ["", labelText(labels, given), value])),
    reset() {},
  });
}

/** Registers a histogram. `buckets` are its upper bounds, ascending, without +Inf. */
export function histogram<Label extends string>(
  registry: Registry,
  { name, help, labels }: MetricDescription<Label>,
  buckets: readonly number[],
): Histogram<Label> {
  const bounds = [...buckets, Infinity];
  /** By labels: the number of observations in each bucket, not cumulative, and the sum of all observations. */
  const series = new Map<string, { readonly counts: number[]; sum: number }>();
  const samplesOf = ([key, { counts, sum }]: [string, { counts: readonly number[]; sum: number }]): Sample[] => {
    let below = 0;
    const inBuckets = bounds.map((bound, i): Sample => {
      below += counts[i]!;
      return ["_bucket", joined(`le="${numberText(bound)}"`, key), below];
    });
    return [...inBuckets, ["_sum", key, sum], ["_count", key, below]];
  };
  registry.add(name, {
    expose: () => exposed(name, "histogram", help, [...series].flatMap(samplesOf)),
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
  registry.add(name, {
    expose: () => exposed(name, type, help, [...values].map(([key, value]) => ["", key, value])),
    reset,
  });
  return values;
}

function exposed(name: string, type: string, help: string, samples: readonly Sample[]): string {
  const lines = samples.map(([suffix, labels, value]) =>
    `${name}${suffix}${labels === "" ? "" : `{${labels}}`} ${numberText(value)}\n`
  );
  return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function labelText(names: readonly string[], labels: Readonly<Record<string, string>>): string {
  return names.map((name) => `${name}="${escapeValue(labels[name]!)}"`).join(",");
}

function joined(first: string, others: string): string {
  return others === "" ? first : `${first},${others}`;
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
