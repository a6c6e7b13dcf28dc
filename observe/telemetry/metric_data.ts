import { ValueType } from "@opentelemetry/api";
import { millisToHrTime } from "@opentelemetry/core";
import { AggregationTemporality, DataPointType, type MetricData } from "@opentelemetry/sdk-metrics";
import type { MetricReading } from "../mod.ts";

/** The time that metrics cover, in milliseconds since 1970. */
export interface MetricInterval {
  /** When the counters were 0. */
  readonly startedAtMs: number;
  readonly nowMs: number;
}

/**
 * Returns the metrics that have series in the SDK's form. Names are those of Prometheus, so that a collector that writes to Prometheus leaves them
 * as they are (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/).
 */
export function metricData(readings: readonly MetricReading[], { startedAtMs, nowMs }: MetricInterval): MetricData[] {
  const times = { startTime: millisToHrTime(startedAtMs), endTime: millisToHrTime(nowMs) };
  const temporality = { aggregationTemporality: AggregationTemporality.CUMULATIVE };
  return readings.filter(({ series }) => series.length > 0).map((reading): MetricData => {
    const { name, help } = reading;
    const descriptor = { name, description: help, unit: unitOf(name), valueType: ValueType.DOUBLE };
    if (reading.type === "histogram") {
      const boundaries = [...reading.bounds];
      const dataPoints = reading.series.map(({ labels, value: { counts, sum } }) => {
        const count = counts.reduce((total, one) => total + one, 0);
        return { ...times, attributes: labels, value: { buckets: { boundaries, counts: [...counts] }, sum, count } };
      });
      return { ...temporality, descriptor, dataPointType: DataPointType.HISTOGRAM, dataPoints };
    }
    const dataPoints = reading.series.map(({ labels, value }) => ({ ...times, attributes: labels, value }));
    return reading.type === "counter"
      ? { ...temporality, descriptor, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
      : { ...temporality, descriptor, dataPointType: DataPointType.GAUGE, dataPoints };
  });
}

/** The unit in a metric's name, in UCUM; "" for a number of things. */
function unitOf(name: string): string {
  const [, unit] = /_(seconds|bytes)(?:_total)?$/.exec(name) ?? [];
  return unit === "seconds" ? "s" : unit === "bytes" ? "By" : "";
}
