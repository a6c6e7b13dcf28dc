import type { SourceServer } from "../core/objects/mod.ts";
import { type ProblemCode, problemCodes, problemKind } from "../core/problems/mod.ts";
import {
  counterReadAtScrape,
  createRegistry,
  gaugeReadAtScrape,
  metricMaker,
  readWhenShown,
  type Registry,
} from "../platform/metrics/mod.ts";
import { KUBERNETES_VERSION, VERSION } from "../platform/mod.ts";
import type { ApiRequestOutcome, SiteStatus } from "../sources/reports/mod.ts";
import type { SourceLink } from "./source_link.ts";

/** Registers `sluice_problem` with a series for every code, which is 0 if there is no such problem. */
export function addProblems(registry: Registry, read: () => ReadonlyMap<ProblemCode, number>): void {
  const help = "Current problems by code (docs/problems.md)";
  const lasting = problemCodes().filter((code) => problemKind(code).checkOnly === undefined);
  readWhenShown(registry, "gauge", { name: "sluice_problem", help, labels: ["code", "severity"] }, () => {
    const counts = read();
    return lasting.map((code) => [{ code, severity: problemKind(code).severity }, counts.get(code) ?? 0] as const);
  });
}

/**
 * Registers `kubernetes_build_info`, which names the release that this version behaves like, for alerts on mixed
 * versions.
 */
export function addBuildInfo(registry: Registry): void {
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

/** Registers the state of the link to the API server or relay. */
export function addLink(registry: Registry, read: () => SourceLink): void {
  const gauge = (name: string, help: string, value: (link: SourceLink) => number | undefined) =>
    readWhenShown(registry, "gauge", { name: `sluice_source_${name}`, help, labels: [] }, () => {
      const shown = value(read());
      return shown === undefined ? [] : [[{}, shown] as const];
    });
  gauge("connected", "Whether the API server or relay answers", ({ state }) => Number(state === "connected"));
  gauge(
    "last_received_timestamp_seconds",
    "When the API server or relay last sent anything, in seconds since 1970",
    ({ lastReceivedMs }) => lastReceivedMs === undefined ? undefined : lastReceivedMs / 1000,
  );
  gauge(
    "kept_state_timestamp_seconds",
    "The time of the kept state that is served until the API server or relay has sent its own, in seconds since 1970",
    ({ keptMs }) => keptMs === undefined ? undefined : keptMs / 1000,
  );
}

/** Registers the role of this node in its site; without a site, nothing is shown. */
export function addSite(registry: Registry, read: () => SourceLink): void {
  const gauge = (name: string, help: string, value: (site: SiteStatus) => number) =>
    readWhenShown(registry, "gauge", { name: `sluice_site_${name}`, help, labels: ["site"] }, () => {
      const { site } = read();
      return site === undefined ? [] : [[{ site: site.name }, value(site)] as const];
    });
  gauge("leader", "Whether this node leads its site", ({ role }) => Number(role === "leader"));
  gauge(
    "lease_confirmed",
    "Whether the Lease of the site names the leader that this node follows or is",
    ({ isConfirmed }) => Number(isConfirmed),
  );
  gauge("leader_changes", "How often the leader of the site has changed", ({ transitions }) => transitions);
}

/** Registers `sluice_source_server` with a series for every server of a gRPC source. */
export function addServers(registry: Registry, read: () => readonly SourceServer[]): void {
  const help = "Whether the source watches this server and has its whole state";
  readWhenShown(
    registry,
    "gauge",
    { name: "sluice_source_server", help, labels: ["server"] },
    () => read().map(({ address, inUse }) => [{ server: address }, inUse ? 1 : 0] as const),
  );
}

/** The metrics at `/metrics/slis` (KEP-3466): the results of the metrics server's health check. */
export interface SliMetrics {
  /** Records that the check of `/healthz`, which only shows that the process runs, passed. */
  pinged(): void;
  /** Resets all results, as kube-proxy does on DELETE. */
  reset(): void;
  /** Returns all metrics in Prometheus' text format. */
  expose(): string;
}

const PING = { name: "ping", type: "healthz" } as const;

/** Creates service level indicators with Kubernetes' names and labels. */
export function createSliMetrics(): SliMetrics {
  const registry = createRegistry();
  const make = metricMaker(registry, "kubernetes_");
  const last = make.gauge("healthcheck", "Whether the last health check passed", [
    "name",
    "type",
  ]);
  const all = make.counter("healthchecks_total", "Results of the health check", ["name", "type", "status"]);
  return {
    pinged() {
      last.set(PING, 1);
      all.inc({ ...PING, status: "success" });
    },
    reset: () => registry.reset(),
    expose: () => registry.expose(),
  };
}

/**
 * Registers the metrics that Prometheus expects of every process: `process_cpu_seconds_total`,
 * `process_resident_memory_bytes` and `process_start_time_seconds`; `process_open_fds` if the runtime permits listing
 * /proc/self/fd, and `process_max_fds` if the limit is known. Returns a function that reads the CPU time, to be awaited
 * before a scrape.
 */
export function addProcessMetrics(registry: Registry, fileLimit: number | undefined): () => Promise<void> {
  let cpuSeconds = 0;
  counterReadAtScrape(
    registry,
    "process_cpu_seconds_total",
    "CPU time used, user and system, all isolates",
    () => cpuSeconds,
  );
  gaugeReadAtScrape(
    registry,
    "process_resident_memory_bytes",
    "Memory in use, all isolates",
    () => Deno.memoryUsage().rss,
  );
  if (openDescriptors() !== undefined) {
    readWhenShown(registry, "gauge", { name: "process_open_fds", help: "Open file descriptors", labels: [] }, () => {
      const open = openDescriptors();
      return open === undefined ? [] : [[{}, open]];
    });
  }
  if (fileLimit !== undefined) {
    metricMaker(registry, "process_").gauge("max_fds", "Limit of open file descriptors").set({}, fileLimit);
  }
  metricMaker(registry, "process_").gauge("start_time_seconds", "When the process started, in seconds since 1970").set(
    {},
    performance.timeOrigin / 1000,
  );
  return async () => {
    const { default: process } = await import("node:process");
    const { user, system } = process.cpuUsage();
    cpuSeconds = (user + system) / 1e6;
  };
}

/** The number of open file descriptors; undefined if the runtime does not permit reading it. */
function openDescriptors(): number | undefined {
  try {
    // Listing the folder takes one descriptor itself.
    return [...Deno.readDirSync("/proc/self/fd")].length - 1;
  } catch {
    return undefined;
  }
}

/** client-go's buckets, in seconds. */
const DURATION_BUCKETS: readonly number[] = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
/** client-go's buckets: 64 bytes to 16 MiB. */
const SIZE_BUCKETS: readonly number[] = [
  64,
  256,
  512,
  1024,
  4096,
  16_384,
  65_536,
  262_144,
  1_048_576,
  4_194_304,
  16_777_216,
];

/**
 * Registers client-go's metrics of requests to the API server, with its names and labels; returns the function that
 * records one request.
 */
export function restClientMetrics(registry: Registry): (outcome: ApiRequestOutcome) => void {
  const make = metricMaker(registry, "rest_client_");
  const requests = make.counter("requests_total", "HTTP requests to the API server", ["code", "method", "host"]);
  const byVerb = ["verb", "host"] as const;
  const duration = make.histogram(
    "request_duration_seconds",
    "How long requests took, without watches",
    byVerb,
    DURATION_BUCKETS,
  );
  const requestSize = make.histogram("request_size_bytes", "Sizes of request bodies", byVerb, SIZE_BUCKETS);
  const responseSize = make.histogram("response_size_bytes", "Sizes of response bodies", byVerb, SIZE_BUCKETS);
  return ({ method, host, status, durationMs, requestBytes, responseBytes }) => {
    const labels = { verb: method, host };
    requests.inc({ code: status === undefined ? "<error>" : String(status), method, host });
    if (durationMs !== undefined) duration.observe(labels, durationMs / 1000);
    if (requestBytes > 0) requestSize.observe(labels, requestBytes);
    if (responseBytes !== undefined) responseSize.observe(labels, responseBytes);
  };
}
