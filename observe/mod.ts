/**
 * Health, metrics, Events and the recent syncs of each family, for the operator of a running proxy.
 *
 * In: reports of syncs, workers and requests. Out: HTTP servers and Events. May touch: listening sockets.
 */
export type { ApiRequestOutcome } from "./api_request.ts";
export { addBuildInfo, addLink, addProblems, addServers } from "./common_metrics.ts";
export type { CanaryCause, CanaryStatus } from "./canary_status.ts";
export { type ChangeFeed, createChangeFeed, type Feed, type FeedEvent, type PlannedOptions } from "./change_feed.ts";
export { createDriftWatch, type DriftWatch } from "./drift_watch.ts";
export { createEventRecorder, type EventRecorderOptions, type EventRequest } from "./events.ts";
export { createRegistry, type MetricReading, readWhenShown, type Registry } from "./exposition.ts";
export { CONTENT_TYPE } from "./exposition_text.ts";
export { problemsOfSync, problemsOfWorker } from "./family_problems.ts";
export { type HealthzServerOptions, startHealthzServer } from "./healthz_server.ts";
export { listeningProblem } from "./listening_problem.ts";
export { counterReadAtScrape, gaugeReadAtScrape, metricMaker, SYNC_BUCKETS } from "./metric_kinds.ts";
export {
  type ChangeFigures,
  createMetrics,
  type FailoverFigures,
  type FamilyPacketCounts,
  type Metrics,
  type MetricsOptions,
} from "./metrics.ts";
export { type MetricsServerOptions, startMetricsServer, type StatusPage } from "./metrics_server.ts";
export { findNeighbours, nameOf, portsAreFree } from "./neighbours.ts";
export { addressesWithin, ownAddresses } from "./node_addresses.ts";
export { createNodeEvents, type NodeEvents } from "./node_events.ts";
export { NODE_SCOPE, watchNodePresence } from "./node_presence.ts";
export { addProcessMetrics } from "./process_metrics.ts";
export { createProxyHealth, type PacketFlow, type ProxyHealth, type ProxyHealthStatus } from "./proxy_health.ts";
export type { FamilyRelayFigures } from "./relay_metrics.ts";
export { restClientMetrics } from "./rest_client_metrics.ts";
export { startOperatorServers } from "./servers.ts";
export { createServiceHealth, type ServiceHealth, type ServiceHealthOptions } from "./service_health.ts";
export { createSliMetrics, type SliMetrics } from "./sli_metrics.ts";
export {
  createSourceLink,
  type LinkEvent,
  type ReportLink,
  type SourceLink,
  type SourceLinkRecord,
} from "./source_link.ts";
export {
  createStatusRecorder,
  type FamilyRecord,
  type Latency,
  type StatusRecorder,
  type SyncSummary,
} from "./status.ts";
export type { SiteStatus } from "./site_status.ts";
export { shownUrl, type Signal, type TelemetryChoice, telemetryChoice } from "./telemetry_choice.ts";
export { sizeOfSync } from "./sync_size.ts";
