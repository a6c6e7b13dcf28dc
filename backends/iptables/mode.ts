import type { TrafficCoverage } from "../../core/model/mod.ts";
import { CONNECTIONS_RESET, type CountDeclarations, type ModeDescription } from "../contract/mod.ts";
import { IPTABLES_TOOLS } from "../tools/mod.ts";

const PROGRAMMED = { name: "kubeproxy_sync_proxy_rules_iptables_total", help: "Rules that are programmed" } as const;
const LAST = { name: "kubeproxy_sync_proxy_rules_iptables_last", help: "Rules that the last sync wrote" } as const;

const COUNTS = {
  iptables_rules_nat: { metrics: [{ kind: "gauge", table: "nat", ...PROGRAMMED }] },
  iptables_rules_filter: { metrics: [{ kind: "gauge", table: "filter", ...PROGRAMMED }] },
  iptables_rules_last_nat: { metrics: [{ kind: "gauge", table: "nat", ...LAST }] },
  iptables_rules_last_filter: { metrics: [{ kind: "gauge", table: "filter", ...LAST }] },
  chains_written: { written: "chains written" },
  chains_deleted: { written: "chains deleted" },
  restores: {},
  connections_reset: CONNECTIONS_RESET,
  restore_failures: {
    metrics: [
      {
        kind: "counter",
        name: "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
        help: "Failed iptables-restore runs",
      },
      {
        kind: "counter",
        name: "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
        help: "Failed iptables-restore runs of partial syncs",
        partialOnly: true,
      },
    ],
  },
} as const satisfies CountDeclarations;

/** A count of a sync in iptables mode. */
export type IptablesCount = keyof typeof COUNTS;

const COVERAGE: TrafficCoverage = {
  kinds: ["connections"],
  failures: ["no-endpoints", "traffic-policy", "source-range"],
  gap: "packets, bytes or unanswered connections: its rules see only the first packet of a connection",
};

/** The description of iptables mode. */
export const DESCRIPTION: ModeDescription = {
  name: "iptables",
  kinds: ["Service", "EndpointSlice", "Node"],
  tools: IPTABLES_TOOLS,
  modules: ["nf_conntrack", "nf_nat", "xt_nat", "xt_MASQUERADE", "xt_statistic", "xt_recent", "xt_addrtype", "xt_mark"],
  counts: COUNTS,
  metrics: { splitsDurations: true, countsPackets: true, countsTraffic: COVERAGE },
  settings: {
    section: "iptables",
    masqueradeSection: "iptables",
    defaultNodePortAddresses: [],
    servesLocalhostNodePorts: true,
    resetsConnections: true,
    isDeprecated: false,
  },
  relay: "none",
  traces: {
    calls: ["iptables-save", "ip6tables-save"].map((tool) => ({ tool, args: ["-t", "nat"] })),
    line: /^:(KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-\S*)/,
    text: (chains) => `${chains.length} chains of services (mode iptables)`,
  },
  balance: { algorithms: ["random"], byDefault: "random" },
  traffic: {
    by: "rules",
    unusedPort: "untouched",
    refusesOwnTraffic: false,
    checksSourcesFirst: false,
    refusesEverywhere: true,
    masqueradesByAddress: false,
  },
};
