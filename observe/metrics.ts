import type { FigureMetric, ModeDescription } from "../backends/contract/mod.ts";
import { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "../config/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family, PacketCounts, SyncReport } from "../core/model/mod.ts";
import type { SourceServer } from "../core/objects/mod.ts";
import type { NoLocalEndpoints } from "../core/planning/mod.ts";
import type { ProblemCode } from "../core/problems/mod.ts";
import {
  CONTENT_TYPE,
  counterReadAtScrape,
  createRegistry,
  gaugeReadAtScrape,
  metricMaker,
  type MetricReading,
  PROGRAMMING_BUCKETS,
  readWhenShown,
  type Registry,
  SYNC_BUCKETS,
} from "../platform/metrics/mod.ts";
import type { ApiRequestOutcome } from "../sources/reports/mod.ts";
import {
  addBuildInfo,
  addLink,
  addProblems,
  addProcessMetrics,
  addServers,
  addSite,
  restClientMetrics,
} from "./common_metrics.ts";
import type { HealthEndpoint } from "./proxy_health.ts";
import type { SourceLink } from "./source_link.ts";

/** Values that are stored elsewhere and read at every scrape. */
export interface ChangeFigures {
  readonly serviceChangesPending: number;
  readonly serviceChangesTotal: number;
  readonly endpointChangesPending: number;
  readonly endpointChangesTotal: number;
  /** By family, for the families that are served. */
  readonly families: Readonly<Partial<Record<Family, FamilyFigures>>>;
}

/** The values of one family that are read at every scrape. */
interface FamilyFigures {
  /** Service ports that wait for its worker. */
  readonly changesPending: number;
  readonly noLocalEndpoints: NoLocalEndpoints;
}

/** The metrics of a proxy. */
export interface Metrics {
  /**
   * Records a finished sync. Its counts update the metrics in the mode's description. `triggerTimesMs` are the times of the
   * changes that took effect with it, in milliseconds since 1970.
   */
  observe(report: SyncReport, triggerTimesMs?: Iterable<number>): void;
  /** Records that a sync of this family was requested. */
  queued(family: Family): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  healthAnswered(endpoint: HealthEndpoint, code: number): void;
  /** Records that a request to the API server ended, or that a watch was answered. */
  apiRequest(outcome: ApiRequestOutcome): void;
  /** Returns all metrics in Prometheus' text format. Nothing is formatted before this call. */
  expose(): Promise<string>;
  /** Returns all metrics as data, with the same values. */
  read(): Promise<readonly MetricReading[]>;
  /** Where features register theirs. */
  readonly registry: Registry;
  /** The content type of the text that `expose` returns. */
  readonly contentType: string;
}

/** Options of `createMetrics`. */
interface MetricsOptions {
  readonly mode: ModeDescription;
  readonly now: () => number;
  /** Called at every scrape. */
  readonly read: () => ChangeFigures;
  /** The feature gates that are set, by name. */
  readonly featureGates: Readonly<Record<string, boolean>>;
  /** The number of files that this process may open; undefined if unknown. */
  readonly fileLimit?: number;
  /** Reads the packet counters of the rules; called at every scrape if the mode has such rules. */
  readonly readPacketCounts: () => Promise<FamilyPacketCounts>;
  /** Reads the metrics of the relays; called at every scrape. Undefined if the configuration needs none. */
  readonly readRelayFigures?: () => Promise<FamilyRelayFigures>;
  /** Called before the metrics are read, for metrics that others have registered. */
  readonly update?: () => Promise<void>;
  /** Counts the current problems by code; called at every scrape. */
  readonly readProblems: () => ReadonlyMap<ProblemCode, number>;
  /** Reads the link to the source; called at every scrape. Undefined if the source is no server. */
  readonly readLink?: () => SourceLink;
  /** Reads the servers that the source chooses from; called at every scrape. */
  readonly readServers?: () => readonly SourceServer[];
}

/** The packet counters of the rules, for each family whose counters could be read. */
export type FamilyPacketCounts = Readonly<Partial<Record<Family, PacketCounts>>>;

const FAMILY = ["ip_family"] as const;

/**
 * Creates the metrics that kube-proxy 1.37 has in this mode, with its names, labels and buckets, and further ones named
 * `sluice_…`.
 */
export function createMetrics(options: MetricsOptions): Metrics {
  const { mode, now, read, featureGates, fileLimit, readPacketCounts, readProblems, readLink, readServers } = options;
  const { readRelayFigures } = options;
  const registry = createRegistry();
  const syncs = syncMetrics(registry, mode);
  const kube = metricMaker(registry, "kubeproxy_");
  const own = metricMaker(registry, "sluice_");
  const healthAnswers = {
    healthz: kube.counter("proxy_healthz_total", "Answers at /healthz by HTTP status", ["code"]),
    readyz: own.counter("proxy_readyz_total", "Answers at /readyz by HTTP status", ["code"]),
    livez: kube.counter("proxy_livez_total", "Answers at /livez by HTTP status", ["code"]),
  };
  const lastQueued = kube.gauge(
    "sync_proxy_rules_last_queued_timestamp_seconds",
    "When a sync was last requested, in seconds since 1970",
    FAMILY,
  );
  const restarts = own.counter("worker_restarts_total", "Restarts of the family's worker", FAMILY);
  const restartsSeen = new Map<Family, number>();
  addChangeMetrics(registry, read);
  addProblems(registry, readProblems);
  if (readLink) {
    addLink(registry, readLink);
    addSite(registry, readLink);
  }
  if (readServers) addServers(registry, readServers);
  addBuildInfo(registry);
  addFeatures(registry, featureGates);
  const readCpuTime = addProcessMetrics(registry, fileLimit);
  const updatePacketCounts = mode.metrics.countsPackets ? packetMetrics(registry, readPacketCounts) : undefined;
  const updateRelayFigures = readRelayFigures && relayMetrics(registry, mode, readRelayFigures);
  const update = () => Promise.all([updatePacketCounts?.(), updateRelayFigures?.(), options.update?.(), readCpuTime()]);

  return {
    observe: syncs,
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
    apiRequest: restClientMetrics(registry),
    async expose() {
      await update();
      return registry.expose();
    },
    async read() {
      await update();
      return registry.read();
    },
    registry,
    contentType: CONTENT_TYPE,
  };
}

/** Registers the metrics of syncs; returns the function that records one. */
function syncMetrics(registry: Registry, mode: ModeDescription): Metrics["observe"] {
  const kube = metricMaker(registry, "kubeproxy_");
  const own = metricMaker(registry, "sluice_");
  const duration = (name: string, help: string) => kube.histogram(name, help, FAMILY, SYNC_BUCKETS);
  const all = duration("sync_proxy_rules_duration_seconds", "How long syncs took");
  const { splitsDurations } = mode.metrics;
  const full = splitsDurations
    ? duration("sync_full_proxy_rules_duration_seconds", "How long full syncs took")
    : undefined;
  const partial = splitsDurations
    ? duration("sync_partial_proxy_rules_duration_seconds", "How long partial syncs took")
    : undefined;
  const conntrack = duration("conntrack_reconciler_sync_duration_seconds", "How long removing stale connections took");
  const programming = kube.histogram(
    "network_programming_duration_seconds",
    "From a change of endpoints in the cluster to its effect on this node",
    FAMILY,
    PROGRAMMING_BUCKETS,
  );
  const lastSync = kube.gauge(
    "sync_proxy_rules_last_timestamp_seconds",
    "When a sync last succeeded, in seconds since 1970",
    FAMILY,
  );
  const problems = own.gauge("problems", "Problems of the last sync", FAMILY);
  const feedFigures = figureMetrics(registry, mode);

  return (report, triggerTimesMs = []) => {
    const labels = { ip_family: report.family };
    const seconds = report.durationMs / 1000;
    all.observe(labels, seconds);
    (report.full ? full : partial)?.observe(labels, seconds);
    problems.set(labels, report.problems.length);
    feedFigures(report);
    if (report.figures.conntrack_ms !== undefined) conntrack.observe(labels, report.figures.conntrack_ms / 1000);
    if (!report.ok) return;
    lastSync.set(labels, report.endedAtMs / 1000);
    for (const triggeredMs of triggerTimesMs) programming.observe(labels, (report.endedAtMs - triggeredMs) / 1000);
  };
}

/** Registers the metrics of the counts of syncs: counters add them up, gauges keep the last one. */
function figureMetrics(registry: Registry, mode: ModeDescription): (report: SyncReport) => void {
  const conntrackDeleted = metricMaker(registry, "kubeproxy_").counter(
    "conntrack_reconciler_deleted_entries_total",
    "Stale connections removed",
    FAMILY,
  );
  const driftRepaired = metricMaker(registry, "sluice_").counter(
    "drift_repaired_total",
    "Changes by other programs that were repaired",
    FAMILY,
  );
  const shared = new Map<string, Feed>();
  const feeds = Object.entries(mode.figures).flatMap(([figure, { metrics = [] }]) =>
    metrics.map((metric) => {
      const feed = shared.get(metric.name) ?? createFeed(registry, metric);
      shared.set(metric.name, feed);
      return (report: SyncReport) => feed(report, metric, report.figures[figure]);
    })
  );
  return (report) => {
    const { family, figures } = report;
    conntrackDeleted.inc({ ip_family: family }, figures.conntrack_deleted ?? 0);
    driftRepaired.inc({ ip_family: family }, figures.drift_repaired ?? 0);
    for (const feed of feeds) feed(report);
  };
}

/** Updates the metric of a count; the value is undefined if the sync did not count it. */
type Feed = (report: SyncReport, metric: FigureMetric, value: number | undefined) => void;

function createFeed(registry: Registry, { kind, name, help, table }: FigureMetric): Feed {
  const maker = metricMaker(registry, "");
  const labels: readonly string[] = table === undefined ? FAMILY : ["ip_family", "table"];
  const labelsOf = ({ family }: SyncReport, { table }: FigureMetric): Readonly<Record<string, string>> =>
    table === undefined ? { ip_family: family } : { ip_family: family, table };
  if (kind === "counter") {
    const counter = maker.counter(name, help, labels);
    return (report, metric, value = 0) =>
      counter.inc(labelsOf(report, metric), metric.partialOnly && report.full ? 0 : value);
  }
  const gauge = maker.gauge(name, help, labels);
  return (report, metric, value) => {
    if (value !== undefined) gauge.set(labelsOf(report, metric), value);
  };
}

/** Registers the metrics that are read from the trackers, the planners and the channels. */
function addChangeMetrics(registry: Registry, read: () => ChangeFigures): void {
  const prefix = "kubeproxy_sync_proxy_rules_";
  for (const kind of ["service", "endpoint"] as const) {
    const pending = `${prefix}${kind}_changes_pending`;
    gaugeReadAtScrape(
      registry,
      pending,
      `Changes to ${kind}s that wait for a sync`,
      () => read()[`${kind}ChangesPending`],
    );
    const total = `${prefix}${kind}_changes_total`;
    counterReadAtScrape(registry, total, `Changes to ${kind}s so far`, () => read()[`${kind}ChangesTotal`]);
  }
  readWhenShown(
    registry,
    "gauge",
    {
      name: `${prefix}no_local_endpoints_total`,
      help: "Service ports of a Local traffic policy without an endpoint on this node",
      labels: ["ip_family", "traffic_policy"],
    },
    () =>
      Object.entries(read().families).flatMap(([family, { noLocalEndpoints }]) =>
        (["internal", "external"] as const).map((policy) =>
          [{ ip_family: family, traffic_policy: policy }, noLocalEndpoints[policy]] as const
        )
      ),
  );
  readWhenShown(
    registry,
    "gauge",
    {
      name: "sluice_changes_pending",
      help: "Service ports whose last change is not in the kernel",
      labels: FAMILY,
    },
    () =>
      Object.entries(read().families).map(([family, { changesPending }]) =>
        [{ ip_family: family }, changesPending] as const
      ),
  );
}

/**
 * Registers the two counters that kube-proxy keeps with nfacct; returns a function that updates them. They keep growing
 * when a rewritten rule counts from 0 again, and keep their values while no worker answers.
 */
function packetMetrics(registry: Registry, read: () => Promise<FamilyPacketCounts>): () => Promise<void> {
  const kube = metricMaker(registry, "kubeproxy_iptables_");
  const counters: Readonly<Record<keyof PacketCounts, ReturnType<typeof kube.counter>>> = {
    ctStateInvalidDropped: kube.counter(
      "ct_state_invalid_dropped_packets_total",
      "Packets dropped because connection tracking considers them INVALID",
    ),
    localhostNodePortsAccepted: kube.counter(
      "localhost_nodeports_accepted_packets_total",
      "Connections to node ports at localhost",
    ),
  };
  const last = new Map<Family, PacketCounts>();
  const update = async () => {
    for (const [family, counts] of Object.entries(await read()) as [Family, PacketCounts][]) {
      for (const name of Object.keys(counters) as (keyof PacketCounts)[]) {
        const before = last.get(family)?.[name] ?? 0;
        counters[name].inc({}, counts[name] >= before ? counts[name] - before : counts[name]);
      }
      last.set(family, counts);
    }
  };
  // Concurrent scrapes share one reading.
  let updating: Promise<void> | undefined;
  return () =>
    updating ??= update().finally(() => {
      updating = undefined;
    });
}

/** Registers `kubernetes_feature_enabled` with a series for every feature that has a gate in Sluice. */
function addFeatures(registry: Registry, set: Readonly<Record<string, boolean>>): void {
  const enabled = metricMaker(registry, "kubernetes_").gauge(
    "feature_enabled",
    "Whether a Kubernetes feature is on",
    ["name", "stage"],
  );
  for (const [name, { stage }] of Object.entries(FEATURE_GATES)) {
    enabled.set({ name, stage }, isFeatureEnabled(name as FeatureName, set) ? 1 : 0);
  }
}

/** The metrics of each family's relay, by the names in relay/contract.ts, except for families without a relay or an answer. */
export type FamilyRelayFigures = Readonly<Partial<Record<Family, Readonly<Record<string, number>>>>>;

const GAUGES = {
  connectionsOpen: ["connections", "Open TCP connections of clients"],
  udpFlows: ["udp_flows", "UDP flows in the table"],
  listeners: ["listeners", "Open listeners, TCP and UDP"],
} as const;

const COUNTERS = {
  connectionsAccepted: ["connections_accepted_total", "Connections accepted from clients"],
  connectionsRefused: ["connections_refused_total", "Connections reset because too many are open"],
  connectionsFailed: ["connections_failed_total", "Connections reset because no endpoint accepted them"],
  failovers: ["failovers_total", "Endpoints passed over because they did not accept a connection"],
  bytesToEndpoints: ["to_endpoints_bytes_total", "TCP payload carried to endpoints"],
  bytesToClients: ["to_clients_bytes_total", "TCP payload carried to clients"],
  udpFlowsEvicted: ["udp_flows_evicted_total", "UDP flows closed early because too many are open"],
  datagramsDropped: ["datagrams_dropped_total", "Datagrams of clients that reached no endpoint"],
} as const;

/**
 * Registers the metrics of the relays; returns a function that updates them. Counters keep growing when a restarted relay
 * counts from 0 again, and keep their values while none answers.
 */
function relayMetrics(
  registry: Registry,
  mode: ModeDescription,
  read: () => Promise<FamilyRelayFigures>,
): () => Promise<void> {
  const own = metricMaker(registry, "sluice_relay_");
  const gauges = Object.entries(GAUGES).map(([figure, [name, help]]) => (
    { figure, gauge: own.gauge(name, help, FAMILY) }
  ));
  const counters = Object.entries(COUNTERS).map(([figure, [name, help]]) => (
    { figure, counter: own.counter(name, help, FAMILY) }
  ));
  if (mode.metrics.countsListeners) {
    const kube = metricMaker(registry, "kubeproxy_nftables_localhost_nodeport_");
    const listeners = kube.gauge("listeners", "Open listeners for node ports at localhost", FAMILY);
    const failures = kube.counter(
      "listener_creation_failures_total",
      "Failures to listen on a node port at localhost",
      FAMILY,
    );
    gauges.push({ figure: "listeners", gauge: listeners });
    counters.push({ figure: "listenersFailed", counter: failures });
  }
  const last = new Map<string, Readonly<Record<string, number>>>();
  return async () => {
    for (const [ip_family, figures] of Object.entries(await read())) {
      const before = last.get(ip_family) ?? {};
      last.set(ip_family, figures);
      for (const { figure, gauge } of gauges) gauge.set({ ip_family }, figures[figure] ?? 0);
      for (const { figure, counter } of counters) {
        const now = figures[figure] ?? 0, then = before[figure] ?? 0;
        counter.inc({ ip_family }, now >= then ? now - then : now);
      }
    }
  };
}
