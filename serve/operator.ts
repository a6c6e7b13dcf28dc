import { isOfSource, type ProblemBoard } from "../core/problems/mod.ts";
import { REASONS, type Serving } from "../kpng/server/mod.ts";
import {
  createConnectionLimits,
  type HttpAnswer,
  type HttpHandler,
  jsonAnswer,
  route,
  type RunningServer,
  startServer,
  textAnswer,
} from "../platform/http/mod.ts";
import { addReadings, CONTENT_TYPE, histogram, SYNC_BUCKETS } from "../platform/metrics/mod.ts";
import type { ClockAndLogger } from "../platform/mod.ts";
import {
  type CommonMetrics,
  type CommonSources,
  createCommonMetrics,
  listeningProblem,
} from "../observe/process/mod.ts";

interface ServingServersOptions extends ClockAndLogger {
  /** `address:port`; undefined for none. */
  readonly healthzBindAddress: string | undefined;
  /** `address:port`; undefined for none. */
  readonly metricsBindAddress: string | undefined;
  readonly source: () => SourceCounts;
  readonly metrics: Pick<ServingMetrics, "expose">;
  /** Has the current problems, and receives the servers that cannot listen. */
  readonly problems: Pick<ProblemBoard, "report" | "current">;
  readonly signal: AbortSignal;
}

interface ServingServers {
  readonly health: RunningServer;
  readonly metrics: RunningServer;
}

/**
 * Starts the health server and the metrics server. `/healthz` and `/readyz` are 503 until the whole state was read from the
 * source, and stay 200 when the source fails later, since the last state is still served; `/livez` is 200 while the process
 * runs.
 */
export async function startServingServers(options: ServingServersOptions): Promise<ServingServers> {
  const { healthzBindAddress, metricsBindAddress, metrics, problems, clock, logger, signal } = options;
  const limits = createConnectionLimits({ clock });
  const shared = { bindAddressHardFail: false, limits, clock, logger, signal };
  const ready = () => readiness(options);
  const alive = () => textAnswer(200, "ok");
  const start = (name: string, handler: HttpHandler, bindAddress: string | undefined) => {
    const onTry = listeningProblem(problems, `${name} server`, bindAddress);
    return startServer(name, handler, { ...shared, bindAddress, onTry });
  };
  const health = route({ "/healthz": ready, "/readyz": ready, "/livez": alive }, "404 page not found\n");
  const exposed: HttpHandler = async () => ({ status: 200, contentType: CONTENT_TYPE, body: await metrics.expose() });
  const scrapes = route(
    { "/metrics": exposed, "/healthz": alive },
    "not found; known paths:\n  /healthz\n  /metrics\n",
  );
  const [healthServer, metricsServer] = await Promise.all([
    start("health", health, healthzBindAddress),
    start("metrics", scrapes, metricsBindAddress),
  ]);
  return { health: healthServer, metrics: metricsServer };
}

/** Answers with the state of the source and the problems that last. */
function readiness({ source, problems, clock }: ServingServersOptions): HttpAnswer {
  const { isReady, lastEventMs } = source();
  return jsonAnswer(isReady ? 200 : 503, {
    currentTime: timeText(clock.now()),
    ready: isReady,
    lastEvent: lastEventMs === undefined ? undefined : timeText(lastEventMs),
    // Those of the server and its source, not of an object that it passes on.
    problems: problems.current().filter(({ code }) => isOfSource(code) || code === "server-not-listening")
      .map(({ code, subject, sinceMs }) => ({ code, subject, since: timeText(sinceMs) })),
  });
}

function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** The state of the source that a server passes on. */
export interface SourceCounts {
  /** Whether the whole state has been read, so that watchers are answered. */
  readonly isReady: boolean;
  /** When the source last reported something, in milliseconds since 1970; undefined before the first report. */
  readonly lastEventMs: number | undefined;
}

interface ServingMetrics extends CommonMetrics {
  /** Records the time in milliseconds from a change until the last watcher received it. */
  lag(lagMs: number): void;
}

/** Options of `createServingMetrics`; the functions are called at every scrape. */
interface ServingMetricsOptions extends CommonSources {
  readonly count: Serving["count"];
  readonly source: () => SourceCounts;
}

/** Creates the metrics of a server, named `sluice_serve_…`, and the metrics of its process and its API client. */
export function createServingMetrics(options: ServingMetricsOptions): ServingMetrics {
  const { count, source } = options;
  const common = createCommonMetrics(options);
  const lag = histogram<never>(
    common.registry,
    "sluice_serve_change_lag_seconds",
    "From a change until it was written to the last watcher",
    [],
    SYNC_BUCKETS,
  );
  const byScope = (name: "watchers" | "rounds" | "bytes") => () =>
    (["global", "local"] as const).map((scope) => [{ scope }, count(`${name} ${scope}`)] as const);
  const watchers = "Current watchers of the global state and of one node's";
  const connections = "Current connections, including those without a call";
  const slow = "Watchers dropped because they did not read";
  const refused = "Watchers refused at the limit of their number";
  const closed = () => REASONS.map((reason) => [{ reason }, count(`closed: ${reason}`)] as const);
  const lastEvent = "When the source last reported something, in seconds since 1970";
  const lastEventSeconds = () => {
    const { lastEventMs } = source();
    return lastEventMs === undefined ? undefined : lastEventMs / 1000;
  };
  addReadings(common.registry, [
    ["gauge", "sluice_serve_watchers", watchers, byScope("watchers"), "scope"],
    ["counter", "sluice_serve_rounds_total", "Rounds of changes sent to watchers", byScope("rounds"), "scope"],
    ["counter", "sluice_serve_sent_bytes_total", "Bytes of messages sent to watchers", byScope("bytes"), "scope"],
    ["gauge", "sluice_serve_connections", connections, () => count("connections")],
    ["counter", "sluice_serve_slow_readers_dropped_total", slow, () => count("slow readers")],
    ["counter", "sluice_serve_watchers_refused_total", refused, () => count("refused watchers")],
    [
      "counter",
      "sluice_serve_connections_closed_total",
      "Connections refused or closed by the server",
      closed,
      "reason",
    ],
    [
      "gauge",
      "sluice_serve_source_ready",
      "Whether the whole state was read from the source",
      () => Number(source().isReady),
    ],
    ["gauge", "sluice_serve_source_last_event_timestamp_seconds", lastEvent, lastEventSeconds],
  ]);
  return { ...common, lag: (lagMs) => lag.observe({}, lagMs / 1000) };
}
