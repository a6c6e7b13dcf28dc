import { boolean, duration, section } from "../../platform/schema/mod.ts";
import { feature } from "../contract.ts";

const FIELDS = {
  traffic: section({
    metrics: boolean(),
    /** Whether each endpoint has its own metrics, in addition to its service port. */
    endpointMetrics: boolean(),
    /**
     * The time between two readings of the kernel's counters: more often would cost more than it shows, and counters expire
     * after ten minutes without traffic.
     */
    period: duration(10_000, { from: 1_000, to: 300_000 }),
  }),
};

/** Counts the traffic of services and endpoints (docs/traffic.md). */
export const traffic = feature({
  name: "traffic",
  fields: FIELDS,
  flags: {
    "traffic-metrics": [
      "traffic.metrics",
      "Count connections, packets and bytes of each service in the kernel, as far as the mode can; off by default.",
    ],
  },
  problems: {},
  check({ traffic: { metrics } }, { name, metrics: { countsTraffic: coverage } }, report) {
    if (!metrics) return;
    if (coverage === false) report.warn("traffic.metrics", `has no effect: mode ${name} cannot count traffic`);
    else if (coverage.gap !== undefined) report.warn("traffic.metrics", `in mode ${name} counts no ${coverage.gap}`);
  },
  isOn: ({ traffic }, { metrics }) => traffic.metrics && metrics.countsTraffic !== false,
  familySettings: () => ({ countTraffic: true }),
  // Conntrack counts the bytes of each connection, for `sluice flows`.
  kernelSettings: [{ name: "net.netfilter.nf_conntrack_acct", value: 1 }],
  load: () => import("./start.ts"),
});
