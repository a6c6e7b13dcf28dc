/**
 * Userspace mode: the rules of iptables mode, except that the relay in this process chooses the endpoint. Its code is the
 * backend of iptables mode with the relay's ports, loaded when it is first needed.
 *
 * In: deltas of one family, with the ports of its relay. Out: rules in the kernel. May run: the tools of iptables mode.
 */
import type { TrafficCoverage } from "../../core/model/mod.ts";
import type { BackendOptions, ModeDescription } from "../contract/mod.ts";
import { IPTABLES_MODE, loadIptables } from "../iptables/mod.ts";

const { description: IPTABLES } = IPTABLES_MODE;

const COVERAGE: TrafficCoverage = {
  kinds: ["connections", "bytes"],
  failures: ["no-endpoints", "traffic-policy", "source-range"],
  gap: "packets, headers or unanswered connections: its relay sees the payload only",
};

const DESCRIPTION: ModeDescription = {
  ...IPTABLES,
  name: "userspace",
  relay: "services",
  metrics: { ...IPTABLES.metrics, countsTraffic: COVERAGE },
  // The relay's connections to endpoints are its own.
  settings: { ...IPTABLES.settings, resetsConnections: undefined },
  // Its chains have the names of iptables mode, whose description finds them.
  traces: { ...IPTABLES.traces, calls: [] },
};

/** The registry entry of userspace mode. */
export const USERSPACE_MODE = {
  description: DESCRIPTION,
  async load() {
    const { createIptablesBackend, IPTABLES_CODE: { examine } } = await loadIptables();
    const { USERSPACE_LAYOUTS } = await import("../xtables/mod.ts");
    // The nat rules lead to the relay, which counts connections to endpoints.
    const variant = { layouts: USERSPACE_LAYOUTS, routesLoopback: false, countingTables: ["filter"] as const };
    return {
      create: (options: BackendOptions) => createIptablesBackend(options, variant),
      examine,
      layout: USERSPACE_LAYOUTS.IPv4,
      /** Does nothing: iptables mode takes over the chains of this mode and removes them. */
      removeTraces: () => Promise.resolve(),
    };
  },
};
