import type { FigureMetric, ModeDescription } from "../backends/contract/mod.ts";
import type { ApiRequestOutcome } from "./api_request.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "../config/mod.ts";
import type { SourceServer } from "../core/objects/mod.ts";
import type { Family, PacketCounts, SyncReport } from "../core/model/mod.ts";
import type { ProblemCode } from "../core/problems/mod.ts";
import type { NoLocalEndpoints } from "../core/planning/mod.ts";
import { addCanaries } from "./canary_metrics.ts";
import type { CanaryStatus } from "./canary_status.ts";
import { addBuildInfo, addLink, addProblems, addServers, addSite } from "./common_metrics.ts";
import type { HealthEndpoint } from "./healthz_server.ts";
import { createRegistry, type MetricReading, readWhenShown, type Registry } from "./exposition.ts";
import { CONTENT_TYPE } from "./exposition_text.ts";
import {
  counterReadAtScrape,
  gaugeReadAtScrape,
  metricMaker,
  PROGRAMMING_BUCKETS,
  SYNC_BUCKETS,
} from "./metric_kinds.ts";
import { addProcessMetrics } from "./process_metrics.ts";
import { type FamilyRelayFigures, relayMetrics } from "./relay_metrics.ts";
import { restClientMetrics } from "./rest_client_metrics.ts";
import type { SourceLink } from "./source_link.ts";

/** Figures that are kept elsewhere and read at every scrape. */
export interface ChangeFigures {
  readonly serviceChangesPending: number;
  readonly serviceChangesTotal: number;
  readonly endpointChangesPending: number;
  readonly endpointChangesTotal: number;
  /** By family, for the families that are served. */
  readonly families: Readonly<Partial<Record<Family, FamilyFigures>>>;
}

/** The figures of one family that are read at every scrape. */
export interface FamilyFigures {
  /** Service ports that wait for its worker. */
  readonly changesPending: number;
  readonly noLocalEndpoints: NoLocalEndpoints;
}

/** The metrics of a proxy. */
export interface Metrics {
  /**
   * Records a finished sync. Its figures feed the metrics that the mode's description declares. `triggerTimesMs` are
   * the times of the changes that took effect with it, in milliseconds since 1970.
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
  /** The content type of the text that `expose` returns. */
  readonly contentType: string;
}

/** Options of `createMetrics`. */
export interface MetricsOptions {
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
  /** Reads the figures of the relays; called at every scrape. Undefined if the configuration needs none. */
  readonly readRelayFigures?: () => Promise<FamilyRelayFigures>;
  /**
   * Adds the metrics of traffic, and returns a function that updates them, which is called at every scrape. Undefined if
   * traffic metrics are off.
   */
  readonly addTraffic?: (registry: Registry) => () => Promise<void>;
  /** Reads the figures of the detection of endpoints that do not answer; called at every scrape. Undefined if it is off. */
  readonly readFailures?: () => FailoverFigures;
  /** Counts the current problems by code; called at every scrape. */
  readonly readProblems: () => ReadonlyMap<ProblemCode, number>;
  /** Reads the link to the source; called at every scrape. Undefined if the source is no server. */
  readonly readLink?: () => SourceLink;
  /** Reads the servers that the source chooses from; called at every scrape. */
  readonly readServers?: () => readonly SourceServer[];
  /** Reads the canaries; called at every scrape. Undefined if the configuration asks for none. */
  readonly readCanaries?: () => readonly CanaryStatus[];
}

/** The figures of the detection of endpoints that do not answer, by family. */
export type FailoverFigures = Readonly<
  Partial<Record<Family, { readonly unreachable: number; readonly ejections: number }>>
>;

/** The packet counters of the rules, for each family whose counters could be read. */
export type FamilyPacketCounts = Readonly<Partial<Record<Family, PacketCounts>>>;

const FAMILY = ["ip_family"] as const;

/**
 * Creates the metrics that kube-proxy 1.36 has in this mode, with its names, labels and buckets, and further ones named
 * `sluice_…`.
 */
export function createMetrics(options: MetricsOptions): Metrics {
  const { mode, now, read, featureGates, fileLimit, readPacketCounts, readProblems, readLink, readServers } = options;
  const { readRelayFigures, readCanaries, addTraffic } = options;
  const registry = createRegistry();
  const syncs = syncMetrics(registry, mode);
  const kube = metricMaker(registry, "kubeproxy_");
  const own = metricMaker(registry, "sluice_");
  const healthAnswers = {
    healthz: kube.counter("proxy_healthz_total", "Answers at /healthz by HTTP status", ["code"]),
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
  if (options.readFailures) addFailures(registry, options.readFailures);
  if (readServers) addServers(registry, readServers);
  if (readCanaries) addCanaries(registry, readCanaries);
  addBuildInfo(registry);
  addFeatures(registry, featureGates);
  const readCpuTime = addProcessMetrics(registry, fileLimit);
  const updatePacketCounts = mode.metrics.countsPackets ? packetMetrics(registry, readPacketCounts) : undefined;
  const updateTraffic = addTraffic?.(registry);
  const updateRelayFigures = readRelayFigures && relayMetrics(registry, readRelayFigures);
  const update = () => Promise.all([updatePacketCounts?.(), updateRelayFigures?.(), updateTraffic?.(), readCpuTime()]);

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

/** Registers the metrics of the figures of syncs: counters add them up, gauges keep the last one. */
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

/** Adds the value of a figure to its metric; undefined if the sync did not count it. */
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

/** Registers the metrics of the detection of endpoints that do not answer. */
function addFailures(registry: Registry, read: () => FailoverFigures): void {
  const add = (type: "gauge" | "counter", name: string, help: string, figure: "unreachable" | "ejections") =>
    readWhenShown(
      registry,
      type,
      { name, help, labels: FAMILY },
      () => Object.entries(read()).map(([family, figures]) => [{ ip_family: family }, figures[figure]] as const),
    );
  add("gauge", "sluice_endpoints_unreachable", "Endpoints that are left out because they do not answer", "unreachable");
  add("counter", "sluice_endpoint_ejections_total", "Times that an endpoint was left out", "ejections");
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
