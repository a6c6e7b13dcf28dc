import type { ReportProblems } from "../../core/problems/mod.ts";
import type { MetricReading } from "../../platform/metrics/mod.ts";
import { errorText, type Logger, VERSION, waitAtMost } from "../../platform/mod.ts";
import type { MetricSource, Process, RunningProcessFeature } from "../contract.ts";
import { shownUrl, type Signal, type TelemetryChoice } from "./choice.ts";
import { createSyncTraces } from "./sync_traces.ts";
import { diag, DiagLogLevel, ValueType } from "@opentelemetry/api";
import { type ExportResult, ExportResultCode, millisToHrTime } from "@opentelemetry/core";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  type Resource,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from "@opentelemetry/resources";
import {
  AggregationTemporality,
  type CollectionResult,
  DataPointType,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";

/** The export of metrics and traces. */
export interface Telemetry extends RunningProcessFeature {
  /** Exports everything now. Resolves when that is done or has failed. */
  flush(): Promise<void>;
}

const SCOPE = { name: "sluice", version: VERSION } as const;
/** The maximum time that the process waits for the collector when it exits. */
const STOP_MS = 2_000;

/**
 * Starts the SDK, which reads the environment of the process. Data that a collector does not accept is a problem, and is
 * dropped: the next export of metrics has the same counts; at most 2,048 spans are queued, or `OTEL_BSP_MAX_QUEUE_SIZE`.
 */
export function start(process: Process, { endpoints }: TelemetryChoice): Telemetry {
  const { environment: env, reportProblems: onProblems, clock, logger } = process;
  let isStarting = true;
  // A failed export is a problem, which is logged once; further messages of the SDK repeat it.
  const tell = (message: string) => isStarting ? logger.warn(message) : logger.debug(message);
  const ignore = () => {};
  diag.setLogger({ error: tell, warn: tell, info: ignore, debug: ignore, verbose: ignore }, DiagLogLevel.WARN);
  const resource = resourceOf(process);
  const numberOf = (name: string) => positiveNumber(env(name), name, logger);
  const metricsUrl = endpoints.get("metrics"), tracesUrl = endpoints.get("traces");
  let source: { readonly metrics: MetricSource; readonly startedAtMs: number } | undefined;

  const collect = async (): Promise<CollectionResult> => {
    const empty = { resourceMetrics: { resource, scopeMetrics: [] }, errors: [] };
    if (source === undefined) return empty;
    const { metrics, startedAtMs } = source;
    const data = metricData(await metrics.read(), startedAtMs, clock.now());
    return { ...empty, resourceMetrics: { resource, scopeMetrics: [{ scope: SCOPE, metrics: data }] } };
  };
  const meters = metricsUrl === undefined ? undefined : (() => {
    const exporter = watchExporter(new OTLPMetricExporter({ url: metricsUrl.href }), "metrics", metricsUrl, onProblems);
    const exportIntervalMillis = numberOf("OTEL_METRIC_EXPORT_INTERVAL") ?? 60_000;
    const exportTimeoutMillis = Math.min(numberOf("OTEL_METRIC_EXPORT_TIMEOUT") ?? 30_000, exportIntervalMillis);
    const metricProducers = [{ collect }];
    const settings = { exporter, exportIntervalMillis, exportTimeoutMillis, metricProducers };
    return new MeterProvider({ resource, readers: [new PeriodicExportingMetricReader(settings)] });
  })();
  const tracers = tracesUrl === undefined ? undefined : new TracerProvider({
    resource,
    sampler: samplerOf(env("OTEL_TRACES_SAMPLER"), env("OTEL_TRACES_SAMPLER_ARG")),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: watchExporter(new OTLPTraceExporter({ url: tracesUrl.href }), "traces", tracesUrl, onProblems),
        scheduledDelayMillis: numberOf("OTEL_BSP_SCHEDULE_DELAY"),
        maxQueueSize: numberOf("OTEL_BSP_MAX_QUEUE_SIZE"),
        maxExportBatchSize: numberOf("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
        exportTimeoutMillis: numberOf("OTEL_BSP_EXPORT_TIMEOUT"),
      }),
    ],
  });
  isStarting = false;
  logger.info(
    "exporting telemetry",
    Object.fromEntries([...endpoints].map(([signal, url]) => [signal, shownUrl(url)])),
  );
  const both = async (act: (provider: MeterProvider | TracerProvider) => Promise<void>) => {
    const results = await Promise.allSettled([meters && act(meters), tracers && act(tracers)]);
    for (const result of results) {
      if (result.status === "rejected") logger.debug("telemetry not exported", { error: errorText(result.reason) });
    }
  };
  const flush = () => both((provider) => provider.forceFlush());
  return {
    attach(metrics, startedAtMs) {
      source = { metrics, startedAtMs };
    },
    startRun: (node) => tracers && createSyncTraces(tracers.getTracer(SCOPE.name, VERSION), node),
    flush,
    async stop() {
      await waitAtMost(clock, STOP_MS, both((provider) => provider.shutdown()));
      diag.disable();
    },
  };
}

/** The attributes of this process, which those in the environment override. */
function resourceOf({ nodeName }: Process): Resource {
  const detectors = [resourceAttributesEnvDetector, serviceNameEnvDetector];
  const own = resourceFromAttributes({
    "service.name": nodeName === undefined ? "sluice-serve" : "sluice",
    "service.version": VERSION,
    "service.instance.id": nodeName ?? Deno.hostname(),
    "host.name": Deno.hostname(),
    ...(nodeName !== undefined && { "k8s.node.name": nodeName }),
  });
  return defaultResource().merge(own).merge(detectResources({ detectors }));
}

/** The sampler that the environment names. `parentbased_` makes no difference, since the trace of a sync has no parent. */
function samplerOf(name: string | undefined, argument: string | undefined): Sampler | undefined {
  switch (name?.trim().replace(/^parentbased_/, "")) {
    case "always_on":
      return new AlwaysOnSampler();
    case "always_off":
      return new AlwaysOffSampler();
    case "traceidratio":
      return new TraceIdRatioBasedSampler(argument === undefined ? 1 : Number(argument));
  }
  return undefined;
}

function positiveNumber(text: string | undefined, name: string, logger: Logger): number | undefined {
  if (text === undefined || text.trim() === "") return undefined;
  const value = Number(text);
  if (value > 0 && value <= 2 ** 31 - 1) return value;
  logger.warn("ignoring an environment variable that is no positive number", { variable: name, value: text });
  return undefined;
}

/**
 * Returns the metrics with series in the SDK's form. Names stay Prometheus names, which a collector that writes to Prometheus
 * does not change (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/).
 * @param startedAtMs when the counters were 0, in milliseconds since 1970
 */
export function metricData(readings: readonly MetricReading[], startedAtMs: number, nowMs: number): MetricData[] {
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

interface Exporter<Items> {
  export(items: Items, done: (result: ExportResult) => void): void;
}

/** Reports a problem while the exports of a signal to this URL fail. Returns the exporter. */
function watchExporter<Items, Watched extends Exporter<Items>>(
  exporter: Watched & Exporter<Items>,
  signal: Signal,
  url: URL,
  onProblems: ReportProblems,
): Watched {
  const run = exporter.export.bind(exporter);
  exporter.export = (items, done) =>
    run(items, (result) => {
      const failed = { code: "telemetry-not-exported", subject: `${signal} to ${shownUrl(url)}` } as const;
      onProblems(
        "telemetry " + signal,
        result.code === ExportResultCode.SUCCESS ? [] : [{ ...failed, detail: reasonOf(result.error) }],
      );
      done(result);
    });
  return exporter;
}

/** The reason without parts that differ from try to try, such as the local port. */
function reasonOf(error: Error | undefined): string {
  if (error === undefined) return "no reason given";
  const { code } = error as { readonly code?: unknown };
  return typeof code === "number" ? `HTTP status ${code}` : errorText(error).replace(/ - Local \(.*\)$/, "");
}
