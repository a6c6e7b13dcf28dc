/**
 * The cluster's state as reported by the sources, by service, and its changes since the planner last took them.
 *
 * In: `ClusterObject`s from a source. Out: `TrackedChanges`. May touch: nothing.
 */

export { endpointsOfSlices, sameSlice, type ServiceEndpoint } from "./endpoint_slice_cache.ts";
export type { NodeChange, NodeState, NodeTracker } from "./node_tracker.ts";
export { createResetTracker } from "./reset_tracker.ts";
export type { ServiceChangeTracker } from "./service_change_tracker.ts";
export type { ServiceRanges } from "./service_cidr_tracker.ts";
export { type ServiceKey, serviceKey, serviceKeyOf, splitServiceKey } from "./service_key.ts";
export { createTracking, type TrackedChanges, type Tracking } from "./trackers.ts";
