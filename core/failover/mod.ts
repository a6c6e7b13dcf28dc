/**
 * Detects TCP endpoints that do not answer this node, from the connection attempts that the kernel counts, and those that are
 * gone.
 *
 *   detector.ts  the state of each endpoint, and its thresholds
 *   gone.ts      endpoints that have left every EndpointSlice
 *   watch.ts     reads the counts, has suspects probed, and decides
 *
 * In: counts, results of probes, the plan. Out: the endpoints to leave out. May touch: the clock.
 */
export { createFailureDetector, type FailureDetector, type FailureThresholds } from "./detector.ts";
export { createGoneTracker, type GoneTracker } from "./gone.ts";
export {
  type EndpointUses,
  type FailureWatch,
  type FailureWatchOptions,
  type Unreachable,
  watchFailures,
} from "./watch.ts";
