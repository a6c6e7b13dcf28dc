import type { History } from "./history.ts";

/** Histories that once failed, or that random generation rarely produces; run before the random ones. */
export const REGRESSIONS: readonly History[] = [
  // No local endpoint serves at first; then a terminating one does, because none is ready.
  [
    {
      kind: "set service",
      service: 0,
      fields: { type: "LoadBalancer", internal: "Local", external: "Local", allows: "outside" },
    },
    { kind: "set slice", service: 0, slice: 0, endpoints: [{ pod: "pod-3", state: "ready" }] },
    { kind: "probe" },
    { kind: "set slice", service: 0, slice: 1, endpoints: [{ pod: "pod-2", state: "terminating" }] },
    { kind: "flush rules" },
    { kind: "probe" },
    { kind: "delete slice", service: 0, slice: 0 },
    { kind: "restart", signal: "SIGKILL" },
  ],
];
