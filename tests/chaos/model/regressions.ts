import type { History } from "./history.ts";

/** Histories that were once told wrong, or that are too rare to be left to chance: lived through before the random ones. */
export const REGRESSIONS: readonly History[] = [
  // Nothing can serve here, then a pod that goes away does, as long as no other is ready.
  [
    {
      does: "set service",
      service: 0,
      wish: { type: "LoadBalancer", internal: "Local", external: "Local", allows: "outside" },
    },
    { does: "set slice", service: 0, slice: 0, endpoints: [{ pod: "pod-3", state: "ready" }] },
    { does: "probe" },
    { does: "set slice", service: 0, slice: 1, endpoints: [{ pod: "pod-2", state: "terminating" }] },
    { does: "flush rules" },
    { does: "probe" },
    { does: "delete slice", service: 0, slice: 0 },
    { does: "restart", signal: "SIGKILL" },
  ],
];
