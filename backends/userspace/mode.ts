import type { ModeDescription } from "../contract/mod.ts";
import { IPTABLES_MODE } from "../iptables/mod.ts";

const { description: IPTABLES } = IPTABLES_MODE;

const DESCRIPTION: ModeDescription = {
  ...IPTABLES,
  name: "userspace",
  relay: "services",
  metrics: { ...IPTABLES.metrics, countsTraffic: false },
  // Its chains are those of iptables mode, under which they are found.
  traces: { ...IPTABLES.traces, calls: [] },
};

/** The registry entry of userspace mode. */
export const USERSPACE_MODE = {
  description: DESCRIPTION,
  load: async () => await (await import("./code.ts")).userspaceCode(),
};
