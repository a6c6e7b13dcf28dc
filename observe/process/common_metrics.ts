import type { ApiRequestOutcome, SourceServer } from "../../core/objects/mod.ts";
import { type ProblemCode, problemCodes, problemKind } from "../../core/problems/mod.ts";
import {
  addReadings,
  counter,
  createRegistry,
  gauge,
  histogram,
  type MetricReading,
  type Registry,
} from "../../platform/metrics/mod.ts";
import { KUBERNETES_VERSION, processCpuMs, VERSION } from "../../platform/mod.ts";
import type { SourceLink } from "./source_link.ts";

/** The metrics of a proxy and of `sluice serve`. */
export interface CommonMetrics {
  /** Records that a request to the API server ended, or that a watch was answered. */
  apiRequest(outcome: ApiRequestOutcome): void;
  /** Returns all metrics in Prometheus' text format. Nothing is formatted before this call. */
  expose(): Promise<string>;
  /** Returns all metrics as data, with the same values. */
  read(): Promise<readonly MetricReading[]>;
  readonly registry: Registry;
}

/** The sources of the common metrics; the functions are called at every scrape. */
export interface CommonSources {
  /** Counts the current problems by code. */
  readonly problems: () => ReadonlyMap<ProblemCode, number>;
  /** The link to the server that the state comes from; undefined if the source is not a server. */
  readonly link?: () => SourceLink;
  readonly servers?: () => readonly SourceServer[];
  /** Called before the metrics are read, for metrics that others have registered. */
  readonly update?: () => Promise<unknown>;
  /** The number of files that this process may open; undefined if unknown. */
  readonly fileLimit?: number;
  /** The metrics at the end of the last run of this process, whose counts continue. */
  readonly earlier?: readonly MetricReading[];
}

/** Creates the metrics of problems, of the source and its API client, of the version and of the process. */
export function createCommonMetrics(sources: CommonSources): CommonMetrics {
  const { problems, link, servers, update, fileLimit, earlier } = sources;
  const registry = createRegistry(earlier);
  addProblems(registry, problems);
  if (link) addLink(registry, link);
  if (servers) {
    const help = "Whether the source watches this server and has its whole state";
    addReadings(registry, [
      [
        "gauge",
        "sluice_source_server",
        help,
        () => servers().map((one) => [{ server: one.address }, Number(one.inUse)]),
        "server",
      ],
    ]);
  }
  addBuildInfo(registry);
  addProcessMetrics(registry, fileLimit);
  return {
    apiRequest: restClientMetrics(registry),
    async expose() {
      await update?.();
      return registry.expose();
    },
    async read() {
      await update?.();
      return registry.read();
    },
    registry,
  };
}

/** Registers `sluice_problem` with a series for every code, which is 0 if there is no such problem. */
function addProblems(registry: Registry, read: () => ReadonlyMap<ProblemCode, number>): void {
  const lasting = problemCodes().filter((code) => problemKind(code).checkOnly === undefined);
  const series = () => {
    const counts = read();
    return lasting.map((code) => [{ code, severity: problemKind(code).severity }, counts.get(code) ?? 0] as const);
  };
  const help = "Current problems by code (docs/problems.md)";
  addReadings(registry, [["gauge", "sluice_problem", help, series, "code", "severity"]]);
}

/** Registers `kubernetes_build_info` with the release that this version behaves like, for alerts on mixed versions. */
function addBuildInfo(registry: Registry): void {
  const info = (name: string, help: string, labels: Readonly<Record<string, string>>) =>
    gauge(registry, name, help, Object.keys(labels)).set(labels, 1);
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

function addLink(registry: Registry, link: () => SourceLink): void {
  const seconds = (timeMs: number | undefined) => timeMs === undefined ? undefined : timeMs / 1000;
  const received = "When the API server or relay last sent anything, in seconds since 1970";
  const kept =
    "The time of the kept state that is served until the API server or relay has sent its own, in seconds since 1970";
  addReadings(registry, [
    [
      "gauge",
      "sluice_source_connected",
      "Whether the API server or relay answers",
      () => Number(link().state === "connected"),
    ],
    ["gauge", "sluice_source_last_received_timestamp_seconds", received, () => seconds(link().lastReceivedMs)],
    ["gauge", "sluice_source_kept_state_timestamp_seconds", kept, () => seconds(link().keptMs)],
  ]);
}

/**
 * Registers the metrics that Prometheus expects of every process; the number of open descriptors if the runtime permits
 * listing /proc/self/fd, and their limit if it is known.
 */
function addProcessMetrics(registry: Registry, fileLimit: number | undefined): void {
  const started = "When the process started, in seconds since 1970";
  const cpuSeconds = () => processCpuMs() / 1000;
  addReadings(registry, [
    ["counter", "process_cpu_seconds_total", "CPU time used, user and system, all isolates", cpuSeconds],
    ["gauge", "process_resident_memory_bytes", "Memory in use, all isolates", () => Deno.memoryUsage().rss],
    ["gauge", "process_start_time_seconds", started, () => performance.timeOrigin / 1000],
  ], false);
  if (openDescriptors() !== undefined) {
    addReadings(registry, [["gauge", "process_open_fds", "Open file descriptors", openDescriptors]]);
  }
  if (fileLimit !== undefined) {
    addReadings(registry, [["gauge", "process_max_fds", "Limit of open file descriptors", () => fileLimit]]);
  }
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
const SIZE_BUCKETS: readonly number[] = [64, 256, 512, ...Array.from({ length: 8 }, (_, i) => 1024 * 4 ** i)];

/** Registers client-go's metrics of API requests; returns the function that records one. */
function restClientMetrics(registry: Registry): (outcome: ApiRequestOutcome) => void {
  const requests = counter(registry, "rest_client_requests_total", "HTTP requests to the API server", [
    "code",
    "method",
    "host",
  ]);
  const byVerb = ["verb", "host"] as const;
  const duration = histogram(
    registry,
    "rest_client_request_duration_seconds",
    "How long requests took, without watches",
    byVerb,
    DURATION_BUCKETS,
  );
  const requestSize = histogram(
    registry,
    "rest_client_request_size_bytes",
    "Sizes of request bodies",
    byVerb,
    SIZE_BUCKETS,
  );
  const responseSize = histogram(
    registry,
    "rest_client_response_size_bytes",
    "Sizes of response bodies",
    byVerb,
    SIZE_BUCKETS,
  );
  return ({ method, host, status, durationMs, requestBytes, responseBytes }) => {
    const labels = { verb: method, host };
    requests.inc({ code: status === undefined ? "<error>" : String(status), method, host });
    if (durationMs !== undefined) duration.observe(labels, durationMs / 1000);
    if (requestBytes > 0) requestSize.observe(labels, requestBytes);
    if (responseBytes !== undefined) responseSize.observe(labels, responseBytes);
  };
}
