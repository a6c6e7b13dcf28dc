import type { Tracking } from "../../core/tracking/trackers.ts";
import { clusterService, clusterSlice, forEachService } from "./cluster.ts";
import type { Stage } from "./stage.ts";
import { trackCluster } from "./tracked_cluster.ts";

/** Tracks objects and their changes; a change is one EndpointSlice. */
export const trackStage: Stage<Tracking> = {
  name: "track",
  prepare(size) {
    const services = forEachService(size, clusterService), slices = forEachService(size, (i) => clusterSlice(i));
    return {
      fill() {
        const tracking = trackCluster(services, slices);
        tracking.take();
        return tracking;
      },
      change(tracking, index, round) {
        const slice = clusterSlice(index, round);
        return () => {
          tracking.set(slice);
          return tracking.take();
        };
      },
    };
  },
};
