import { WHOLE_TRAFFIC } from "../../core/model/mod.ts";
import { CONNECTIONS_RESET, type CountDeclarations, type ModeDescription } from "../contract/mod.ts";
import { TOOLS } from "../tools/mod.ts";

const COUNTS = {
  elements_written: { written: "elements written" },
  elements_deleted: { written: "elements deleted" },
  chains_written: { written: "chains written" },
  nftables_transactions: {},
  nftables_sync_failures: {
    metrics: [{
      kind: "counter",
      name: "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
      help: "Failed nft transactions",
    }],
  },
  connections_reset: CONNECTIONS_RESET,
  cleanup_failures: {
    metrics: [{
      kind: "counter",
      name: "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
      help: "Failed nft cleanups",
    }],
  },
} as const satisfies CountDeclarations;

/** A count of a sync in nftables mode. */
export type NftablesCount = keyof typeof COUNTS;

/** The description of nftables mode. */
export const DESCRIPTION: ModeDescription = {
  name: "nftables",
  // Packets to an unused address of a ServiceCIDR are dropped. kube-proxy's other modes watch ServiceCIDRs, too, but
  // ignore them.
  kinds: ["Service", "EndpointSlice", "Node", "ServiceCIDR"],
  tools: [TOOLS.nft],
  modules: ["nf_conntrack", "nf_tables", "nft_chain_nat", "nft_nat", "nft_masq", "nft_numgen", "nft_ct"],
  counts: COUNTS,
  metrics: { splitsDurations: true, countsPackets: false, countsListeners: true, countsTraffic: WHOLE_TRAFFIC },
  settings: {
    section: "nftables",
    masqueradeSection: "nftables",
    defaultNodePortAddresses: ["primary"],
    servesLocalhostNodePorts: false,
    supportsFailover: true,
    resetsConnections: true,
    isDeprecated: false,
  },
  relay: "localhost-node-ports",
  traces: {
    calls: [{ tool: "nft", args: ["list", "tables"] }],
    line: /^table (ip6? (?:kube-proxy|sluice|sluice-connections|sluice-resets))$/,
    text: (tables) => `the tables ${tables.join(", ")} (mode nftables)`,
  },
  balance: {
    algorithms: ["random", "round-robin", "consistent-hash", "least-connections"],
    byDefault: "random",
    tablesAreInKernel: true,
    countsConnections: true,
  },
  traffic: {
    by: "rules",
    unusedPort: "rejected",
    refusesOwnTraffic: true,
    checksSourcesFirst: true,
    refusesEverywhere: false,
    masqueradesByAddress: true,
  },
};
