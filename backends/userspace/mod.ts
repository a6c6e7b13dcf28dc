/**
 * Userspace mode: the rules of iptables mode, except that the relay in this process chooses the endpoint. Its code, the
 * backend of iptables mode with the relay's ports, is in code.ts.
 *
 * In: deltas of one family, with the ports of its relay. Out: rules in the kernel. May run: the tools of iptables mode.
 */
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
  // Its chains have the names of iptables mode, whose description finds them.
  traces: { ...IPTABLES.traces, calls: [] },
};

/** The registry entry of userspace mode. */
export const USERSPACE_MODE = {
  description: DESCRIPTION,
  load: async () => await (await import("./code.ts")).userspaceCode(),
};
