/** What an operator sees: health, health checks of load balancers, metrics, the configuration in use. */
export { type HealthzServerOptions, startHealthzServer } from "./healthz_server.ts";
export type { RunningServer } from "./server.ts";
export {
  type ChangeFigures,
  createMetrics,
  type FamilyPacketCounts,
  type Metrics,
  type MetricsOptions,
} from "./metrics.ts";
export { type MetricsServerOptions, startMetricsServer } from "./metrics_server.ts";
export { createSliMetrics, type SliMetrics } from "./sli_metrics.ts";
export { addressesWithin } from "./node_addresses.ts";
export { createProxyHealth, type ProxyHealth, type ProxyHealthStatus } from "./proxy_health.ts";
export { createServiceHealth, type ServiceHealth, type ServiceHealthOptions } from "./service_health.ts";
