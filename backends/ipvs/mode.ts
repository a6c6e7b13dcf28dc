import { DUMMY_INTERFACE, IPVS_SCHEDULERS, TRAFFIC_KINDS, type TrafficCoverage } from "../../core/model/mod.ts";
import { type CountDeclarations, type ModeDescription } from "../contract/mod.ts";
import { IPTABLES_TOOLS, TOOLS } from "../tools/mod.ts";

const COUNTS = {
  virtual_servers: {},
  server_operations: { written: "virtual server changes" },
  set_changes: { written: "set changes" },
  iptables_rules_nat: {},
  iptables_rules_filter: {},
  iptables_rules_last_nat: {},
  iptables_rules_last_filter: {},
  restore_failures: {
    metrics: [{
      kind: "counter",
      name: "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
      help: "Failed iptables-restore runs",
    }],
  },
} as const satisfies CountDeclarations;

/** A count of a sync in IPVS mode. */
export type IpvsCount = keyof typeof COUNTS;

const COVERAGE: TrafficCoverage = {
  kinds: TRAFFIC_KINDS,
  failures: [],
  gap: "failures: the kernel's IPVS counts only connections that it has sent to an endpoint",
};

/** The description of IPVS mode. */
export const DESCRIPTION: ModeDescription = {
  name: "ipvs",
  kinds: ["Service", "EndpointSlice", "Node"],
  tools: [TOOLS.ipvsadm, TOOLS.ipset, TOOLS.ip, ...IPTABLES_TOOLS, TOOLS.modprobe],
  modules: ["nf_conntrack", "nf_nat", "ip_vs", "ip_set", "xt_set", "dummy", "xt_MASQUERADE", "xt_mark"],
  counts: COUNTS,
  metrics: { splitsDurations: false, countsPackets: false, countsTraffic: COVERAGE },
  settings: {
    section: "ipvs",
    masqueradeSection: "iptables",
    defaultNodePortAddresses: [],
    servesLocalhostNodePorts: false,
    isDeprecated: true,
  },
  relay: "localhost-node-ports",
  traces: {
    calls: [{ tool: "ip", args: ["-o", "link", "show", DUMMY_INTERFACE] }],
    line: new RegExp(`^\\d+: (${DUMMY_INTERFACE}):`),
    failsWithout: true,
    text: () => `the interface ${DUMMY_INTERFACE} (mode ipvs)`,
  },
  balance: { algorithms: ["round-robin", "least-connections", "consistent-hash", ...IPVS_SCHEDULERS], byDefault: "rr" },
  traffic: { by: "virtual-servers" },
};
