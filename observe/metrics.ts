import type { FigureMetric, ModeDescription } from "../backends/contract/mod.ts";
import { KUBERNETES_VERSION, VERSION } from "../platform/mod.ts";
import type { ApiRequestOutcome } from "./api_request.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import { FEATURE_GATES, type FeatureName, isFeatureEnabled } from "../config/mod.ts";
import type { Family, PacketCounts, SyncReport } from "../core/model/mod.ts";
import { PROBLEM_CODES, type ProblemCode, problemKind } from "../core/problems/mod.ts";
import type { NoLocalEndpoints } from "../core/planning/mod.ts";
import type { HealthEndpoint } from "./healthz_server.ts";
import { CONTENT_TYPE, createRegistry, readWhenShown, type Registry } from "./exposition.ts";
import {
  counterReadAtScrape,
  gaugeReadAtScrape,
  metricMaker,
  PROGRAMMING_BUCKETS,
  SYNC_BUCKETS,
} from "./metric_kinds.ts";
import { addProcessMetrics } from "./process_metrics.ts";
import { restClientMetrics } from "./rest_client_metrics.ts";

/** What is counted elsewhere and only read when somebody scrapes. */
export interface ChangeFigures {
  readonly serviceChangesPending: number;
  readonly serviceChangesTotal: number;
  readonly endpointChangesPending: number;
  readonly endpointChangesTotal: number;
  /** By family that is served. */
  readonly families: Readonly<Partial<Record<Family, FamilyFigures>>>;
}

/** What is read of a family. */
export interface FamilyFigures {
  /** Service ports that wait for its worker. */
  readonly changesPending: number;
  readonly noLocalEndpoints: NoLocalEndpoints;
}

/** What there is to tell about a proxy in numbers. */
export interface Metrics {
  /**
   * A sync has ended. Its figures feed the metrics that the mode's description declares. `triggerTimesMs` are those of the changes that have come into effect with it, in milliseconds since 1970.
   */
  observe(report: SyncReport, triggerTimesMs?: Iterable<number>): void;
  /** A sync of this family was asked for. */
  queued(family: Family): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  healthAnswered(endpoint: HealthEndpoint, code: number): void;
  /** A request to the API server has ended, or a watch was answered. */
  apiRequest(outcome: ApiRequestOutcome): void;
  /** Everything in Prometheus' text format; nothing is formatted before. */
  expose(): Promise<string>;
  /** The content type of that. */
  readonly contentType: string;
}

/** What the metrics are of. */
export interface MetricsOptions {
  readonly mode: ModeDescription;
  readonly now: () => number;
  /** Asked at every scrape. */
  readonly read: () => ChangeFigures;
  /** The feature gates that are set, by name. */
  readonly featureGates: Readonly<Record<string, boolean>>;
  /** The number of files that this process may open; undefined where that is not known. */
  readonly fileLimit?: number;
  /** What rules have counted, by family that can tell; asked at a scrape, where the mode has such rules. */
  readonly readPacketCounts: () => Promise<FamilyPacketCounts>;
  /** The number of problems that last, by code; asked at every scrape. */
  readonly readProblems: () => ReadonlyMap<ProblemCode, number>;
}

/** What rules have counted, by family that can tell. */
export type FamilyPacketCounts = Readonly<Partial<Record<Family, PacketCounts>>>;

const FAMILY = ["ip_family"] as const;

/** The metrics of kube-proxy 1.36 under its names, labels and buckets, as the mode has them; and, as `sluice_…`, more. */
export function createMetrics(
  { mode, now, read, featureGates, fileLimit, readPacketCounts, readProblems }: MetricsOptions,
): Metrics {
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
    "When a sync was last asked for, in seconds since 1970",
    FAMILY,
  );
  const restarts = own.counter("worker_restarts_total", "How often the family's worker had to be started anew", FAMILY);
  const restartsSeen = new Map<Family, number>();
  addChangeMetrics(registry, read);
  addProblems(registry, readProblems);
  addBuildInfo(registry);
  addFeatures(registry, featureGates);
  const readCpuTime = addProcessMetrics(registry, fileLimit);
  const updatePacketCounts = mode.metrics.countsPackets ? packetMetrics(registry, readPacketCounts) : undefined;

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
      await Promise.all([updatePacketCounts?.(), readCpuTime()]);
      return registry.expose();
    },
    contentType: CONTENT_TYPE,
  };
}

/** The metrics that a report feeds. */
function syncMetrics(registry: Registry, mode: ModeDescription): Metrics["observe"] {
  const kube = metricMaker(registry, "kubeproxy_");
  const own = metricMaker(registry, "sluice_");
  const duration = (name: string, help: string) => kube.histogram(name, help, FAMILY, SYNC_BUCKETS);
  const all = duration("sync_proxy_rules_duration_seconds", "How long syncs took");
  const { splitsDurations } = mode.metrics;
  const full = splitsDurations
    ? duration("sync_full_proxy_rules_duration_seconds", "How long syncs took that looked at everything")
    : undefined;
  const partial = splitsDurations
    ? duration("sync_partial_proxy_rules_duration_seconds", "How long syncs of what had changed took")
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
  const problems = own.gauge("problems", "Things the last sync could not program", FAMILY);
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

/** The metrics that the figures of reports feed: counters add up, gauges keep the last one. */
function figureMetrics(registry: Registry, mode: ModeDescription): (report: SyncReport) => void {
  const conntrackDeleted = metricMaker(registry, "kubeproxy_").counter(
    "conntrack_reconciler_deleted_entries_total",
    "Stale connections removed",
    FAMILY,
  );
  const driftRepaired = metricMaker(registry, "sluice_").counter(
    "drift_repaired_total",
    "Changes by others that were undone",
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

/** Takes the value of a figure into its metric; undefined where the sync did not count it. */
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

/** The metrics that are read from the trackers, the planners and the channels. */
function addChangeMetrics(registry: Registry, read: () => ChangeFigures): void {
  const prefix = "kubeproxy_sync_proxy_rules_";
  for (const kind of ["service", "endpoint"] as const) {
    const pending = `${prefix}${kind}_changes_pending`;
    gaugeReadAtScrape(
      registry,
      pending,
      `Changes of ${kind}s that wait for a sync`,
      () => read()[`${kind}ChangesPending`],
    );
    const total = `${prefix}${kind}_changes_total`;
    counterReadAtScrape(registry, total, `Changes of ${kind}s so far`, () => read()[`${kind}ChangesTotal`]);
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
      help: "Service ports whose change waits for the family's worker",
      labels: FAMILY,
    },
    () =>
      Object.entries(read().families).map(([family, { changesPending }]) =>
        [{ ip_family: family }, changesPending] as const
      ),
  );
}

/**
 * The two counters that kube-proxy keeps with nfacct. Returns what brings them up to date. A rule that was written anew
 * counts from 0 again, which the counters do not; and they stay as they are while nobody answers.
 */
function packetMetrics(registry: Registry, read: () => Promise<FamilyPacketCounts>): () => Promise<void> {
  const kube = metricMaker(registry, "kubeproxy_iptables_");
  const counters: Readonly<Record<keyof PacketCounts, ReturnType<typeof kube.counter>>> = {
    ctStateInvalidDropped: kube.counter(
      "ct_state_invalid_dropped_packets_total",
      "Packets that were dropped because connection tracking took them for INVALID",
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
  // Scrapes at the same time share one reading.
  let updating: Promise<void> | undefined;
  return () =>
    updating ??= update().finally(() => {
      updating = undefined;
    });
}

/** The problems that a running proxy can have. */
const LASTING_CODES = PROBLEM_CODES.filter((code) => problemKind(code).checkOnly === undefined);

/** `sluice_problem` has a series for every code of the table, 0 where there is no such problem. */
function addProblems(registry: Registry, read: MetricsOptions["readProblems"]): void {
  const help = "Problems that last now, by code (docs/problems.md)";
  readWhenShown(registry, "gauge", { name: "sluice_problem", help, labels: ["code", "severity"] }, () => {
    const counts = read();
    return LASTING_CODES.map((code) =>
      [{ code, severity: problemKind(code).severity }, counts.get(code) ?? 0] as const
    );
  });
}

/** `kubernetes_feature_enabled` tells which of the features are on that have a gate here. */
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

/** `kubernetes_build_info` names the release that this version behaves like, for alerts on mixed versions. */
function addBuildInfo(registry: Registry): void {
  const info = (name: string, help: string, labels: Readonly<Record<string, string>>) =>
    metricMaker(registry, "").gauge(name, help, Object.keys(labels)).set(labels, 1);
  const [major = "", minor = ""] = KUBERNETES_VERSION.replace(/^v/, "").split(".");
  info("kubernetes_build_info", "The Kubernetes release that this proxy behaves like", {
    major,
    minor,
    git_version: KUBERNETES_VERSION,
    git_commit: "",
    git_tree_state: "",
    build_date: "",
    go_version: "",
    compiler: "deno",
    platform: `${Deno.build.os}/${Deno.build.arch === "x86_64" ? "amd64" : "arm64"}`,
  });
  info("sluice_build_info", "The version of Sluice and of the Deno that runs it", {
    version: VERSION,
    deno: Deno.version.deno,
  });
}
