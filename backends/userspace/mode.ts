import type { TrafficCoverage } from "../../core/model/mod.ts";
import type { ModeDescription } from "../contract/mod.ts";
import { IPTABLES_MODE } from "../iptables/mod.ts";

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
  // Its chains are those of iptables mode, under which they are found.
  traces: { ...IPTABLES.traces, calls: [] },
};

/** The registry entry of userspace mode. */
export const USERSPACE_MODE = {
  description: DESCRIPTION,
  load: async () => await (await import("./code.ts")).userspaceCode(),
};
