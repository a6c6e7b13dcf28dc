/**
 * The cluster's state as reported by the sources, by service, and its changes since the planner last took them.
 *
 *   trackers.ts           combines the trackers behind one sink: Services, ServiceCIDRs, labels, slices of both families
 *   endpoints_tracker.ts  EndpointSlices of one family by service, merged to endpoints
 *   node_tracker.ts       this node's Node object
 *   changing_map.ts       a map that records its changes
 *   reset_tracker.ts      objects that were deleted during a reset
 *   service_key.ts        names of Services
 *
 * In: `ClusterObject`s from a source. Out: `TrackedChanges`. May touch: nothing.
 */
export { endpointsOfSlices, sameSlice, type ServiceEndpoint } from "./endpoints_tracker.ts";
export type { NodeChange, NodeState, NodeTracker } from "./node_tracker.ts";
export { createResetTracker } from "./reset_tracker.ts";
export * from "./service_key.ts";
export * from "./trackers.ts";
