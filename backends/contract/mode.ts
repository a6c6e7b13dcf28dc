import type { BalanceAlgorithm, BalanceHash, ProxyMode, TrafficCoverage } from "../../core/model/mod.ts";
import type { Kind } from "../../core/objects/mod.ts";
import type { KnownTool, Runner, ToolCall } from "../tools/mod.ts";

/**
 * A mode as plain data: everything that the rest of the product needs to know about it, except its rules. It is loaded in every
 * isolate; the backend's code only in workers and in commands that read the kernel.
 */
export interface ModeDescription {
  readonly name: ProxyMode;
  /** The kinds of objects that a proxy in this mode reads from the cluster. */
  readonly kinds: readonly Kind[];
  readonly tools: readonly KnownTool[];
  /** The kernel modules that its rules need, except modules that the rules load themselves. */
  readonly modules: readonly string[];
  readonly counts: CountDeclarations;
  readonly metrics: ModeMetrics;
  readonly settings: ModeSettings;
  readonly relay: ModeRelay;
  readonly traces: ModeTraces;
  readonly traffic: ModeTraffic;
  readonly balance: ModeBalance;
}

/** The ways in which a mode balances connections. */
interface ModeBalance {
  readonly algorithms: readonly BalanceAlgorithm[];
  /** The algorithm of services that ask for none; in IPVS mode the configured scheduler replaces it. */
  readonly byDefault: BalanceAlgorithm;
  /** Whether each slot of a table is an element in the kernel for each frontend, so that tables need a budget. */
  readonly tablesAreInKernel?: true;
  /** Whether `least-connections` follows counts of connections (`Backend.openConnections`), and not the kernel's scheduler. */
  readonly countsConnections?: true;
}

/**
 * The connections that the relay in this process carries:
 * - `services`: every connection to a TCP or UDP service, which the rules send to it;
 * - `localhost-node-ports`: connections to node ports at 127.0.0.1 and ::1, if the configuration names these;
 * - `none`: nothing.
 */
export type ModeRelay = "services" | "localhost-node-ports" | "none";

/** The tools of both variants of iptables by their own names: cleanup removes the rules of the other variant, too. */
export const IPTABLES_VARIANT_TOOLS: readonly string[] = ["iptables", "ip6tables"].flatMap((tool) =>
  ["legacy", "nft"].flatMap((variant) => [`${tool}-${variant}-save`, `${tool}-${variant}-restore`])
);

/** The counts that a sync of the mode reports, by name, in addition to those of every mode. */
export type CountDeclarations = Readonly<Record<string, CountDeclaration>>;

/** A number that a sync reports, and where it is shown, in addition to the debug log and the status. */
interface CountDeclaration {
  readonly metrics?: readonly CountMetric[];
  /** Its wording in the size of a sync: `chains written`. */
  readonly written?: string;
}

/** The count of modes that reset connections to deleted endpoints. */
export const CONNECTIONS_RESET: CountDeclaration = {
  metrics: [{
    kind: "counter",
    name: "sluice_connections_reset_total",
    help: "Packets of connections to endpoints that are gone, answered with a reset",
  }],
};

/** The metric that is updated with the number: a counter adds it up, a gauge keeps the last value. */
export interface CountMetric {
  readonly kind: "counter" | "gauge";
  readonly name: string;
  readonly help: string;
  /** Its label `table`, if several numbers update one metric. */
  readonly table?: "nat" | "filter";
  /** Counts partial syncs only: full ones add 0. */
  readonly partialOnly?: true;
}

/** Metrics of a mode that are not updated from sync reports. */
interface ModeMetrics {
  /** Whether full and partial syncs have duration histograms of their own. */
  readonly splitsDurations: boolean;
  /** Whether its rules count packets (`Backend.packetCounts`). */
  readonly countsPackets: boolean;
  /** Whether kube-proxy has metrics of this mode's listeners for node ports at localhost (KEP-6032). */
  readonly countsListeners?: true;
  /** The traffic that it can count (`Backend.readTraffic`); false if it can count none. */
  readonly countsTraffic: false | TrafficCoverage;
}

/** A section of KubeProxyConfiguration that holds the settings of a mode. */
export type ModeSection = "iptables" | "nftables" | "ipvs";

/** Settings that depend on the mode. */
interface ModeSettings {
  /** The section with its sync periods, and with those settings that only one mode has. */
  readonly section: ModeSection;
  /** The section with its masquerade settings: kube-proxy's IPVS mode uses section `iptables`. */
  readonly masqueradeSection: "iptables" | "nftables";
  /** The node port addresses by default; empty for all addresses of the node (KEP-3866). */
  readonly defaultNodePortAddresses: readonly string[];
  /** Whether the rules can serve node ports at 127.0.0.1. */
  readonly servesLocalhostNodePorts: boolean;
  /** Whether its rules can count connection attempts. */
  readonly supportsFailover?: true;
  /** Whether connections to deleted endpoints can be reset (see ../resets.ts). */
  readonly resetsConnections?: true;
  /** Whether Kubernetes has deprecated the mode. */
  readonly isDeprecated: boolean;
}

/** The traces that a proxy in this mode, Sluice or kube-proxy, leaves on a node. */
interface ModeTraces {
  /** The calls that would print a trace. */
  readonly calls: readonly Pick<ToolCall, "tool" | "args">[];
  /** Matches a line that is a trace; its first group names the trace. */
  readonly line: RegExp;
  /** Whether a failing call means that there are no traces; otherwise the node cannot be judged. */
  readonly failsWithout?: true;
  /** Describes traces by their names: `the table ip sluice`. */
  readonly text: (names: readonly string[]) => string;
}

/**
 * How new connections are handled where modes differ, each as in kube-proxy's mode of the same name; the input of `explain`.
 * IPVS has one list of endpoints for each virtual server, and binds the service addresses to the node.
 */
export type ModeTraffic = { readonly by: "virtual-servers" } | RuleTraffic;

/** The handling of new connections by the rules of iptables or nftables. */
export interface RuleTraffic {
  readonly by: "rules";
  /** The verdict on a connection to a cluster IP on a port that no service has. */
  readonly unusedPort: "rejected" | "untouched";
  /** Whether connections from this node itself to an external address without endpoints are rejected. */
  readonly refusesOwnTraffic: boolean;
  /** Whether a source outside a load balancer's ranges is dropped, not rejected, even without endpoints. */
  readonly checksSourcesFirst: boolean;
  /** Whether a node port without endpoints is rejected at all addresses of the node. */
  readonly refusesEverywhere: boolean;
  /** Whether every port of a cluster IP is masqueraded by its rule, including ports that belong to another service. */
  readonly masqueradesByAddress: boolean;
}

/** A node in one mode, which is to have another one. */
export interface DepartureQuestion {
  readonly runner: Runner;
  /** The other mode. */
  readonly to: ModeDescription;
  readonly settings: DepartureSettings;
}

/** The settings of the configuration for the other mode on which the differences depend. */
export interface DepartureSettings {
  /** The algorithm of Services that ask for none; undefined for the mode's default. */
  readonly algorithm: BalanceAlgorithm | undefined;
  readonly hash: BalanceHash;
  /** Prefixes and keywords; empty for all addresses of the node. */
  readonly nodePortAddresses: readonly string[];
}

/** A difference that the change of the mode makes on this node. */
export interface Difference {
  /** Its subject in one to three words. */
  readonly name: string;
  /** Follows the name, as in a finding of `sluice check`. */
  readonly message: string;
  /** Advice for the administrator; absent if the difference harms nobody. */
  readonly fix?: string;
}
