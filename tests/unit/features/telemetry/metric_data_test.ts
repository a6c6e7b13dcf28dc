import { AggregationTemporality, DataPointType } from "@opentelemetry/sdk-metrics";
import assert from "node:assert/strict";
import * as metrics from "../../../../platform/metrics/mod.ts";
import { metricData } from "../../../../features/telemetry/start.ts";

const TIMES = { startTime: [1, 500_000_000], endTime: [62, 0] };

Deno.test("counters, gauges and histograms keep their names, labels and values", () => {
  const registry = metrics.createRegistry();
  metrics.counter(registry, "p_sent_bytes_total", "Bytes", ["to"]).inc({ to: 'a"b\\n' }, 7);
  metrics.gauge(registry, "p_last_timestamp_seconds", "Last").set({}, 1.25);
  metrics.gauge(registry, "p_queue", "Waiting", ["never"]);
  const seconds = metrics.histogram(registry, "p_seconds", "Durations", ["family"], [0.5, 1]);
  for (const value of [0.1, 0.5, 7]) seconds.observe({ family: "IPv4" }, value);
  const data = metricData(registry.read(), 1500, 62_000);
  assert.deepEqual(data.map(({ descriptor: { name, description, unit } }) => [name, description, unit]), [
    ["p_sent_bytes_total", "Bytes", "By"],
    ["p_last_timestamp_seconds", "Last", "s"],
    ["p_seconds", "Durations", "s"],
  ]);
  const [counter, gauge, histogram] = data;
  assert.deepEqual(counter?.dataPoints, [{ ...TIMES, attributes: { to: 'a"b\\n' }, value: 7 }]);
  assert.ok(counter?.dataPointType === DataPointType.SUM && counter.isMonotonic);
  assert.equal(counter.aggregationTemporality, AggregationTemporality.CUMULATIVE);
  assert.equal(gauge!.dataPointType, DataPointType.GAUGE);
  assert.deepEqual(gauge!.dataPoints, [{ ...TIMES, attributes: {}, value: 1.25 }]);
  assert.equal(histogram!.dataPointType, DataPointType.HISTOGRAM);
  assert.deepEqual(histogram!.dataPoints, [{
    ...TIMES,
    attributes: { family: "IPv4" },
    value: { buckets: { boundaries: [0.5, 1], counts: [2, 0, 1] }, sum: 7.6, count: 3 },
  }]);
});

Deno.test("data that was read does not change with later observations", () => {
  const registry = metrics.createRegistry();
  const seconds = metrics.histogram<never>(registry, "seconds", "Durations", [], [1]);
  seconds.observe({}, 0.5);
  const [before] = metricData(registry.read(), 0, 1);
  seconds.observe({}, 0.5);
  assert.deepEqual(before!.dataPoints.map(({ value }) => value), [
    { buckets: { boundaries: [1], counts: [1, 0] }, sum: 0.5, count: 1 },
  ]);
});
