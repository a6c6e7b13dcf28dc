import type { CountMetric, ModeDescription } from "../backends/contract/mod.ts";
import { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "../config/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family, PacketCounts, SyncReport } from "../core/model/mod.ts";
import type { NoLocalEndpoints } from "../core/planning/mod.ts";
import {
  addReadings,
  counter,
  gauge,
  histogram,
  PROGRAMMING_BUCKETS,
  type Registry,
  SYNC_BUCKETS,
} from "../platform/metrics/mod.ts";
import { type CommonMetrics, type CommonSources, createCommonMetrics } from "./process/mod.ts";
import type { HealthEndpoint } from "./proxy_health.ts";

interface Counted {
  pending(): number;
  total(): number;
}

/** The tracked changes of services and endpoints, and their outcome in each family that is served. */
interface ChangeCounts {
  readonly tracking: { readonly services: Counted; readonly endpoints: Readonly<Record<Family, Counted>> };
  readonly families: readonly {
    readonly family: Family;
    /** Service ports that wait for its worker. */
    changesPending(): number;
    noLocalEndpoints(): NoLocalEndpoints;
  }[];
}

/** The metrics of a proxy. */
export interface Metrics extends CommonMetrics {
  /**
   * Records a finished sync. Its counts update the metrics in the mode's description. `triggerTimesMs` are the times of the
   * changes that took effect with it, in milliseconds since 1970.
   */
  observe(report: SyncReport, triggerTimesMs?: Iterable<number>): void;
  /** Records that a sync of this family was requested. */
  queued(family: Family): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  healthAnswered(endpoint: HealthEndpoint, code: number): void;
}

/** Options of `createMetrics`; the functions are called at every scrape. */
interface MetricsOptions extends CommonSources, ChangeCounts {
  readonly mode: ModeDescription;
  readonly now: () => number;
  readonly featureGates: Readonly<Record<string, boolean>>;
  /** Reads the packet counters of the rules, if the mode has such rules. */
  readonly readPacketCounts: () => Promise<WorkerCounts<PacketCounts>>;
  /** Reads the metrics of the relays, by the names in relay/contract.ts. Undefined if the configuration needs none. */
  readonly readRelayCounts?: () => Promise<WorkerCounts>;
  /** The last counts of the workers, which outlast a run: by group and family. */
  readonly lastCounts?: LastCounts;
}

/** The last counts of workers, by group and family; their metrics grow by the difference. */
export type LastCounts = Map<string, Readonly<Partial<Record<string, number>>>>;

/** The counts of the workers, for each family whose worker has answered. */
export type WorkerCounts<Counts = Readonly<Record<string, number>>> = Readonly<Partial<Record<Family, Counts>>>;

const FAMILY = ["ip_family"] as const;

/**
 * Creates the metrics that kube-proxy 1.37 has in this mode, with its names, labels and buckets, and further ones named
 * `sluice_…`.
 */
export function createMetrics(options: MetricsOptions): Metrics {
  const { mode, now, featureGates, readPacketCounts, readRelayCounts, lastCounts: last = new Map(), update } = options;
  const updates = [update];
  const common = createCommonMetrics({ ...options, update: () => Promise.all(updates.map((one) => one?.())) });
  const { registry } = common;
  const healthAnswers = {
    healthz: counter(registry, "kubeproxy_proxy_healthz_total", "Answers at /healthz by HTTP status", ["code"]),
    readyz: counter(registry, "sluice_proxy_readyz_total", "Answers at /readyz by HTTP status", ["code"]),
    livez: counter(registry, "kubeproxy_proxy_livez_total", "Answers at /livez by HTTP status", ["code"]),
  };
  const lastQueued = gauge(
    registry,
    "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
    "When a sync was last requested, in seconds since 1970",
    FAMILY,
  );
  const restarts = counter(registry, "sluice_worker_restarts_total", "Restarts of the family's worker", FAMILY);
  const restartsSeen = new Map<Family, number>();
  addChangeMetrics(registry, options);
  addFeatures(registry, featureGates);
  if (mode.metrics.countsPackets) updates.push(addWorkerCounts(registry, PACKETS, [], readPacketCounts, last));
  if (readRelayCounts) {
    const counts = { ...RELAY, ...mode.metrics.countsListeners && LISTENERS };
    updates.push(addWorkerCounts(registry, counts, FAMILY, readRelayCounts, last));
  }

  return {
    ...common,
    observe: syncMetrics(registry, mode),
    queued(family) {
      lastQueued.set({ ip_family: family }, now() / 1000);
    },
    workerHealth(family, health) {
      if (health.state !== "restarting") return;
      restarts.inc({ ip_family: family }, Math.max(0, health.restarts - (restartsSeen.get(family) ?? 0)));
      restartsSeen.set(family, health.restarts);
    },
    healthAnswered(endpoint, code) {
      healthAnswers[endpoint].inc({ code: String(code) });
    },
  };
}

/** Registers the metrics of syncs; returns the function that records one. */
function syncMetrics(registry: Registry, mode: ModeDescription): Metrics["observe"] {
  const duration = (name: string, help: string) => histogram(registry, name, help, FAMILY, SYNC_BUCKETS);
  const all = duration("kubeproxy_sync_proxy_rules_duration_seconds", "How long syncs took");
  const { splitsDurations } = mode.metrics;
  const ofKind = (kind: string) =>
    splitsDurations
      ? duration(`kubeproxy_sync_${kind}_proxy_rules_duration_seconds`, `How long ${kind} syncs took`)
      : undefined;
  const full = ofKind("full"), partial = ofKind("partial");
  const conntrack = duration(
    "kubeproxy_conntrack_reconciler_sync_duration_seconds",
    "How long removing stale connections took",
  );
  const programming = histogram(
    registry,
    "kubeproxy_network_programming_duration_seconds",
    "From a change of endpoints in the cluster to its effect on this node",
    FAMILY,
    PROGRAMMING_BUCKETS,
  );
  const lastSync = gauge(
    registry,
    "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
    "When a sync last succeeded, in seconds since 1970",
    FAMILY,
  );
  const problems = gauge(registry, "sluice_problems", "Problems of the last sync", FAMILY);
  const feedCounts = countMetrics(registry, mode);

  return (report, triggerTimesMs = []) => {
    const labels = { ip_family: report.family };
    const seconds = report.durationMs / 1000;
    all.observe(labels, seconds);
    (report.full ? full : partial)?.observe(labels, seconds);
    problems.set(labels, report.problems.length);
    feedCounts(report);
    if (report.counts.conntrack_ms !== undefined) conntrack.observe(labels, report.counts.conntrack_ms / 1000);
    if (!report.ok) return;
    lastSync.set(labels, report.endedAtMs / 1000);
    for (const triggeredMs of triggerTimesMs) programming.observe(labels, (report.endedAtMs - triggeredMs) / 1000);
  };
}

function counted(name: string, help: string): { readonly metrics: readonly CountMetric[] } {
  return { metrics: [{ kind: "counter", name, help }] };
}

/** Counts that every mode reports. */
const COMMON_COUNTS = {
  conntrack_deleted: counted("kubeproxy_conntrack_reconciler_deleted_entries_total", "Stale connections removed"),
  drift_repaired: counted("sluice_drift_repaired_total", "Changes by other programs that were repaired"),
};

/** Registers the metrics of the counts of syncs: counters add them up, gauges keep the last one. */
function countMetrics(registry: Registry, mode: ModeDescription): (report: SyncReport) => void {
  const known = new Map<string, ReturnType<typeof createMetric>>();
  const feeds = Object.entries({ ...COMMON_COUNTS, ...mode.counts }).flatMap(([key, { metrics = [] }]) =>
    metrics.map(({ kind, name, help, table, partialOnly }) => {
      const labels = table === undefined ? FAMILY : ["ip_family", "table"];
      const update = known.get(name) ?? createMetric(registry, kind, name, help, labels);
      known.set(name, update);
      return ({ family, full, counts }: SyncReport) => {
        const value = counts[key] ?? (kind === "counter" ? 0 : undefined);
        const counted = partialOnly && full ? 0 : value;
        if (counted !== undefined) update({ ip_family: family, ...table && { table } }, counted);
      };
    })
  );
  return (report) => feeds.forEach((feed) => feed(report));
}

/** Registers a metric; returns the function that adds to a counter, or sets a gauge. */
function createMetric(
  registry: Registry,
  kind: "counter" | "gauge",
  ...description: readonly [name: string, help: string, labels: readonly string[]]
): (labels: Readonly<Record<string, string>>, value: number) => void {
  return kind === "counter" ? counter(registry, ...description).inc : gauge(registry, ...description).set;
}

/** Registers the metrics that are read from the trackers, the planners and the channels. */
function addChangeMetrics(registry: Registry, { tracking: { services, endpoints }, families }: ChangeCounts): void {
  const ofEndpoints = Object.values(endpoints);
  const sum = (count: (of: Counted) => number) => () => ofEndpoints.reduce((sum, of) => sum + count(of), 0);
  const noLocalEndpoints = () =>
    families.flatMap(({ family: ip_family, noLocalEndpoints }) =>
      Object.entries(noLocalEndpoints()).map(([traffic_policy, count]) =>
        [{ ip_family, traffic_policy }, count] as const
      )
    );
  const pending = () => families.map((one) => [{ ip_family: one.family }, one.changesPending()] as const);
  addReadings(registry, [
    [
      "gauge",
      "kubeproxy_sync_proxy_rules_service_changes_pending",
      "Changes to services that wait for a sync",
      services.pending,
    ],
    [
      "counter",
      "kubeproxy_sync_proxy_rules_service_changes_total",
      "Changes to services so far",
      services.total,
    ],
    [
      "gauge",
      "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
      "Changes to endpoints that wait for a sync",
      sum((of) => of.pending()),
    ],
    [
      "counter",
      "kubeproxy_sync_proxy_rules_endpoint_changes_total",
      "Changes to endpoints so far",
      sum((of) => of.total()),
    ],
    [
      "gauge",
      "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
      "Service ports of a Local traffic policy without an endpoint on this node",
      noLocalEndpoints,
      "ip_family",
      "traffic_policy",
    ],
    ["gauge", "sluice_changes_pending", "Service ports whose last change is not in the kernel", pending, ...FAMILY],
  ]);
}

/** Registers `kubernetes_feature_enabled` with a series for every feature that has a gate in Sluice. */
function addFeatures(registry: Registry, set: Readonly<Record<string, boolean>>): void {
  const enabled = gauge(
    registry,
    "kubernetes_feature_enabled",
    "Whether a Kubernetes feature is on",
    ["name", "stage"],
  );
  for (const [name, { stage }] of Object.entries(FEATURE_GATES)) {
    enabled.set({ name, stage }, isFeatureEnabled(name as FeatureName, set) ? 1 : 0);
  }
}

/** The counts of workers, by the metric that shows each: a counter if its name ends in `_total`, otherwise a gauge. */
type WorkerMetrics<Name = string> = Readonly<Record<string, readonly [count: Name, help: string]>>;

/** The two counters that kube-proxy keeps with nfacct. */
const PACKETS: WorkerMetrics<keyof PacketCounts> = {
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total: [
    "ctStateInvalidDropped",
    "Packets dropped because connection tracking considers them INVALID",
  ],
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total: [
    "localhostNodePortsAccepted",
    "Connections to node ports at localhost",
  ],
};

const RELAY: WorkerMetrics = {
  sluice_relay_connections: ["connectionsOpen", "Open TCP connections of clients"],
  sluice_relay_udp_flows: ["udpFlows", "UDP flows in the table"],
  sluice_relay_listeners: ["listeners", "Open listeners, TCP and UDP"],
  sluice_relay_connections_accepted_total: ["connectionsAccepted", "Connections accepted from clients"],
  sluice_relay_connections_refused_total: ["connectionsRefused", "Connections reset because too many are open"],
  sluice_relay_connections_failed_total: ["connectionsFailed", "Connections reset because no endpoint accepted them"],
  sluice_relay_failovers_total: ["failovers", "Endpoints passed over because they did not accept a connection"],
  sluice_relay_to_endpoints_bytes_total: ["bytesToEndpoints", "TCP payload carried to endpoints"],
  sluice_relay_to_clients_bytes_total: ["bytesToClients", "TCP payload carried to clients"],
  sluice_relay_udp_flows_evicted_total: ["udpFlowsEvicted", "UDP flows closed early because too many are open"],
  sluice_relay_datagrams_dropped_total: ["datagramsDropped", "Datagrams of clients that reached no endpoint"],
};

/** kube-proxy's metrics of the listeners for node ports at localhost (KEP-6032). */
const LISTENERS: WorkerMetrics = {
  kubeproxy_nftables_localhost_nodeport_listeners: ["listeners", "Open listeners for node ports at localhost"],
  kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: [
    "listenersFailed",
    "Failures to listen on a node port at localhost",
  ],
};

/**
 * Registers metrics of what the workers count; returns a function that updates them. Counters keep growing when a rewritten
 * rule or a restarted relay counts from 0 again, and keep their values while no worker answers.
 */
function addWorkerCounts<Name extends string>(
  registry: Registry,
  described: WorkerMetrics<Name>,
  labels: readonly "ip_family"[],
  read: () => Promise<WorkerCounts<Readonly<Partial<Record<Name, number>>>>>,
  last: LastCounts,
): () => Promise<void> {
  const metrics = Object.entries(described).map(([name, [count, help]]) => {
    const kind = name.endsWith("_total") ? "counter" : "gauge";
    return { count, kind, update: createMetric(registry, kind, name, help, labels) };
  });
  const group = metrics[0]!.count;
  const readOnce = async () => {
    for (const [ip_family, now] of Object.entries(await read())) {
      const before = last.get(`${group} ${ip_family}`);
      last.set(`${group} ${ip_family}`, now);
      for (const { count, kind, update } of metrics) {
        const value = now[count] ?? 0, then = before?.[count] ?? 0;
        update({ ip_family }, kind === "gauge" || value < then ? value : value - then);
      }
    }
  };
  // Concurrent scrapes share one reading.
  let reading: Promise<void> | undefined;
  return () =>
    reading ??= readOnce().finally(() => {
      reading = undefined;
    });
}
