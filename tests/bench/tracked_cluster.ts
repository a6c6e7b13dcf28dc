import { type EndpointSlice } from "../../core/objects/cluster_object.ts";
import { KINDS } from "../../core/objects/cluster_object.ts";
import { type Service } from "../../core/objects/cluster_object.ts";
import { createTracking, type Tracking } from "../../core/tracking/trackers.ts";
import { systemClock } from "../../platform/clock.ts";
import { failOnProblems } from "../fakes/problems.ts";

/** A node without endpoints. */
export const NODE_NAME = "this-node";

/** Tracks a whole cluster; its changes have not been taken yet. */
export function trackCluster(services: readonly Service[], slices: readonly EndpointSlice[]): Tracking {
  const tracking = createTracking({
    kinds: KINDS,
    nodeName: NODE_NAME,
    bindAddress: "0.0.0.0",
    clock: systemClock,
    onChange: () => {},
    onProblems: failOnProblems,
  });
  for (const one of services) tracking.set(one);
  for (const one of slices) tracking.set(one);
  for (const kind of KINDS) tracking.synced(kind);
  return tracking;
}
