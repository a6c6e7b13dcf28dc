import { KINDS } from "../../core/objects/cluster_object.ts";
import { createTracking, type Tracking } from "../../core/tracking/trackers.ts";
import { createFakeClock } from "./clock.ts";

/** Tracks all kinds of objects on a node, and ignores changes and problems. */
export function fakeTracking(nodeName = "here"): Tracking {
  return createTracking({
    kinds: KINDS,
    nodeName,
    bindAddress: "",
    clock: createFakeClock(),
    onChange: () => {},
    onProblems: () => {},
  });
}
