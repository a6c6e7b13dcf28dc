/**
 * Health, metrics, Events and the recent syncs of each family, for the operator of a running proxy.
 *
 * In: reports of syncs, workers and requests. Out: HTTP servers and Events. May touch: listening sockets.
 */
export { type ChangeFeed, createChangeFeed, type PlannedOptions } from "./change_feed.ts";
export { createProcessRecord, type Feed, type FeedEvent, type ProcessRecord } from "./process_record.ts";
export * from "./neighbours.ts";
export { createEventRecorder } from "./events.ts";
export { createProxyHealth, type ProxyHealth } from "./proxy_health.ts";
export { startOperatorServers } from "./servers.ts";
export { createMetrics, type Metrics, type WorkerCounts } from "./metrics.ts";
export type { StatusPage } from "./metrics_server.ts";
export { addressesWithin, ownAddresses } from "./node_addresses.ts";
export { createNodeEvents, type NodeEvents } from "./node_events.ts";
export { createServiceHealth, type ServiceHealth } from "./service_health.ts";
export * from "./status.ts";
