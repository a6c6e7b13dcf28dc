/**
 * The cluster's state as reported by the sources, by service, and its changes since the planner last took them.
 *
 *   trackers.ts                  combines the trackers behind one sink
 *   service_change_tracker.ts    Services, and the ranges of their cluster IPs
 *   endpoint_slice_cache.ts      EndpointSlices by service, merged to endpoints
 *   node_tracker.ts              this node's Node object
 *   label_tracker.ts             labels that weights refer to
 *   changing_map.ts              a map that records its changes
 *   reset_tracker.ts             objects that were deleted during a reset
 *   service_key.ts               names of Services
 *
 * In: `ClusterObject`s from a source. Out: `TrackedChanges`. May touch: nothing.
 */

export { endpointsOfSlices, sameSlice, type ServiceEndpoint } from "./endpoint_slice_cache.ts";
export type { Labels, LabelTracker } from "./label_tracker.ts";
export type { NodeChange, NodeState, NodeTracker } from "./node_tracker.ts";
export { createResetTracker } from "./reset_tracker.ts";
export type { ServiceChangeTracker, ServiceRanges } from "./service_change_tracker.ts";
export { type ServiceKey, serviceKey, serviceKeyOf, splitServiceKey } from "./service_key.ts";
export { createTracking, type TrackedChanges, type Tracking } from "./trackers.ts";
