/**
 * Counts of traffic by service port and endpoint; loaded only if traffic metrics are on.
 *
 *   recorder.ts  adds up the readings of the workers
 *   metrics.ts   the metrics of services and endpoints
 *
 * In: readings. Out: totals, rates and metrics. May touch: nothing.
 */
export {
  type CountedTraffic,
  createTrafficRecorder,
  type RecordedPort,
  type ServiceTraffic,
  type TrafficCounts,
  type TrafficRecorder,
} from "./recorder.ts";
export { addTrafficMetrics } from "./metrics.ts";
