/**
 * The cluster's state: what sources reported, by service, and what changed since the planner last asked.
 *
 * In: `ClusterObject`s from a source. Out: `TrackedChanges`. Touches nothing.
 */
export { createConfirmation } from "./confirmation.ts";
export { endpointsOfSlices, sameSlice, type ServiceEndpoint } from "./endpoint_slice_cache.ts";
export type { NodeChange, NodeState, NodeTracker } from "./node_tracker.ts";
export type { ServiceChangeTracker } from "./service_change_tracker.ts";
export type { ServiceRanges } from "./service_cidr_tracker.ts";
export { type ServiceKey, serviceKey, serviceKeyOf, splitServiceKey } from "./service_key.ts";
export { createTracking, type TrackedChanges, type Tracking } from "./trackers.ts";
