import { createFamilyPlanner, type FamilyPlanner } from "../../core/planning/mod.ts";
import { clusterService, clusterSlice, forEachService } from "./cluster.ts";
import type { Stage } from "./stage.ts";
import { NODE_NAME, trackCluster } from "./tracked_cluster.ts";
import { failOnProblems } from "../fakes/problems.ts";

/** Plans service ports from the tracked cluster; a change is one EndpointSlice. */
export const planStage: Stage<FamilyPlanner> = {
  name: "plan",
  prepare(size) {
    const tracking = trackCluster(forEachService(size, clusterService), forEachService(size, (i) => clusterSlice(i)));
    tracking.take();
    const newPlanner = () =>
      createFamilyPlanner({
        family: "IPv4",
        nodeName: NODE_NAME,
        tracking,
        onProblems: failOnProblems,
      });
    return {
      fill() {
        // A new planner plans everything that is tracked.
        const planner = newPlanner();
        planner.plan(tracking.take());
        return planner;
      },
      change(planner, index, round) {
        tracking.set(clusterSlice(index, round));
        const changes = tracking.take();
        return () => planner.plan(changes);
      },
    };
  },
};
