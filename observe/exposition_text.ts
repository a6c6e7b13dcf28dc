/** Prometheus' text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/). */

/** The content type of the text format. */
export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Observations counted by upper bound. */
export interface Distribution {
  /** The number of observations in each bucket, not cumulative; the last one has no upper bound. */
  readonly counts: readonly number[];
  /** The sum of all observations. */
  readonly sum: number;
}

/** What is shown of a metric; the series are by the text of their labels. */
export type ShownMetric =
  & { readonly name: string; readonly help: string }
  & ({
    readonly type: "counter" | "gauge";
    readonly series: () => Iterable<readonly [labels: string, value: number]>;
  } | {
    readonly type: "histogram";
    /** The upper bounds of the buckets, ascending, without +Inf. */
    readonly bounds: readonly number[];
    readonly series: () => Iterable<readonly [labels: string, value: Distribution]>;
  });

/** Returns the HELP, TYPE and sample lines of a metric, newlines included. */
export function metricText(metric: ShownMetric): string {
  const { name, help, type } = metric;
  const lines: string[] = [`# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`];
  const add = (suffix: string, labels: string, value: number) =>
    lines.push(`${name}${suffix}${labels === "" ? "" : `{${labels}}`} ${numberText(value)}\n`);
  if (metric.type !== "histogram") {
    for (const [labels, value] of metric.series()) add("", labels, value);
    return lines.join("");
  }
  for (const [labels, { counts, sum }] of metric.series()) {
    let below = 0;
    [...metric.bounds, Infinity].forEach((bound, i) => {
      below += counts[i]!;
      add("_bucket", joined(`le="${numberText(bound)}"`, labels), below);
    });
    add("_sum", labels, sum);
    add("_count", labels, below);
  }
  return lines.join("");
}

/** Returns the text of a series' labels: `name="value",…`. */
export function labelText(names: readonly string[], labels: Readonly<Record<string, string>>): string {
  return names.map((name) => `${name}="${escapeValue(labels[name]!)}"`).join(",");
}

/** Returns the labels in a text that `labelText` has written. */
export function labelsInText(text: string): Readonly<Record<string, string>> {
  const unescaped = (value: string) => value.replace(/\\(.)/gs, (_, char) => char === "n" ? "\n" : char);
  return Object.fromEntries(
    text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/gs).map(([, name, value]) => [name!, unescaped(value!)]),
  );
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
