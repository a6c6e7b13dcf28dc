/**
 * Export of metrics and of a trace for each sync to an OpenTelemetry collector, as OTLP over HTTP.
 *
 *   telemetry.ts         the SDK with its exporters, set up from the standard environment variables
 *   sync_traces.ts       the spans of syncs
 *
 * In: a registry, the planned changes and the reports of syncs. Out: requests to the collector. May touch: the environment
 * and the files that it names, at the start; the network; timers of the SDK.
 */
export type { SyncTraces } from "./sync_traces.ts";
export { startTelemetry, type Telemetry } from "./telemetry.ts";
