/**
 * Health and metrics of `sluice serve`, for its operator.
 *
 *   serving_metrics.ts  what the gRPC server sends, and its source
 *   servers.ts          the health server and the metrics server
 *
 * In: figures of the gRPC server and of its source. Out: HTTP servers. May touch: listening sockets.
 */
export { startServingServers } from "./servers.ts";
export { createServingMetrics, type ServingMetrics, type SourceFigures } from "./serving_metrics.ts";
