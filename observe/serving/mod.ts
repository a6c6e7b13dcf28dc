/**
 * Health and metrics of `sluice serve`, for its operator.
 *
 * In: metrics of the gRPC server and of its source. Out: HTTP servers. May touch: listening sockets.
 */
import type { SourceServer } from "../../core/objects/mod.ts";
import { type CurrentProblem, isOfSource, type ProblemBoard, type ProblemCode } from "../../core/problems/mod.ts";
import type { ServingFigures } from "../../kpng/server/mod.ts";
import {
  createConnectionLimits,
  type HttpAnswer,
  route,
  type RunningServer,
  startServer,
  textAnswer,
} from "../../platform/http/mod.ts";
import {
  CONTENT_TYPE,
  counterReadAtScrape,
  createRegistry,
  gaugeReadAtScrape,
  metricMaker,
  type MetricReading,
  readWhenShown,
  SYNC_BUCKETS,
} from "../../platform/metrics/mod.ts";
import type { Clock, Logger } from "../../platform/mod.ts";
import type { ApiRequestOutcome } from "../../sources/reports/mod.ts";
import {
  addBuildInfo,
  addLink,
  addProblems,
  addProcessMetrics,
  addServers,
  listeningProblem,
  restClientMetrics,
  type SourceLink,
} from "../mod.ts";

/** Options of `startServingServers`. */
interface ServingServersOptions {
  /** `address:port`; undefined for none. */
  readonly healthzBindAddress: string | undefined;
  /** `address:port`; undefined for none. */
  readonly metricsBindAddress: string | undefined;
  readonly source: () => SourceFigures;
  readonly metrics: Pick<ServingMetrics, "expose">;
  /** Has the current problems, and receives the servers that cannot listen. */
  readonly problems: Pick<ProblemBoard, "report" | "current">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Stops both servers. */
  readonly signal: AbortSignal;
}

/** The servers for the operator of `sluice serve`. */
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
  const [healthServer, metricsServer] = await Promise.all([
    startServer("health", route({ "/healthz": ready, "/readyz": ready, "/livez": alive }, "404 page not found\n"), {
      ...shared,
      bindAddress: healthzBindAddress,
      onTry: listeningProblem(problems, "health server", healthzBindAddress),
    }),
    startServer(
      "metrics",
      route({
        "/metrics": async () => ({ status: 200, contentType: CONTENT_TYPE, body: await metrics.expose() }),
        "/healthz": alive,
      }, "not found; known paths:\n  /healthz\n  /metrics\n"),
      {
        ...shared,
        bindAddress: metricsBindAddress,
        onTry: listeningProblem(problems, "metrics server", metricsBindAddress),
      },
    ),
  ]);
  return { health: healthServer, metrics: metricsServer };
}

/** Answers with the state of the source and the problems that last. */
function readiness({ source, problems, clock }: ServingServersOptions): HttpAnswer {
  const { isReady, lastEventMs } = source();
  return {
    status: isReady ? 200 : 503,
    contentType: "application/json",
    body: JSON.stringify({
      currentTime: timeText(clock.now()),
      ready: isReady,
      lastEvent: lastEventMs === undefined ? undefined : timeText(lastEventMs),
      problems: problems.current().filter(isOfServer).map(({ code, subject, sinceMs }) => (
        { code, subject, since: timeText(sinceMs) }
      )),
    }),
  };
}

/** Whether a problem is one of the server and its source, not of an object that it passes on. */
function isOfServer({ code }: CurrentProblem): boolean {
  return isOfSource(code) || code === "server-not-listening";
}

function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

/** The state of the source that a server passes on. */
export interface SourceFigures {
  /** Whether the whole state has been read, so that watchers are answered. */
  readonly isReady: boolean;
  /** When the source last reported something, in milliseconds since 1970; undefined before the first report. */
  readonly lastEventMs: number | undefined;
}

/** The metrics of `sluice serve`. */
interface ServingMetrics {
  /** Records the time in milliseconds from a change until the last watcher received it. */
  lag(lagMs: number): void;
  /** Records that a request to the API server ended, or that a watch was answered. */
  apiRequest(outcome: ApiRequestOutcome): void;
  /** Returns all metrics in Prometheus' text format. */
  expose(): Promise<string>;
  /** Returns all metrics as data, with the same values. */
  read(): Promise<readonly MetricReading[]>;
}

/** Options of `createServingMetrics`; the functions are called at every scrape. */
interface ServingMetricsOptions {
  readonly figures: () => ServingFigures;
  readonly source: () => SourceFigures;
  /** The link to the server that the state comes from; undefined if the source is not a server. */
  readonly link?: () => SourceLink;
  /** The servers that the source chooses from. */
  readonly servers?: () => readonly SourceServer[];
  /** Counts the current problems by code. */
  readonly problems: () => ReadonlyMap<ProblemCode, number>;
}

type Registry = ReturnType<typeof createRegistry>;

const PREFIX = "sluice_serve_";

/** Creates the metrics of a server, named `sluice_serve_…`, and the metrics of its process and its API client. */
export function createServingMetrics(options: ServingMetricsOptions): ServingMetrics {
  const { figures, source, link, servers, problems } = options;
  const registry = createRegistry();
  addTraffic(registry, figures);
  const lag = metricMaker(registry, PREFIX).histogram<never>(
    "change_lag_seconds",
    "From a change until it was written to the last watcher",
    [],
    SYNC_BUCKETS,
  );
  addRefusals(registry, figures);
  addSource(registry, source);
  if (link) addLink(registry, link);
  if (servers) addServers(registry, servers);
  addProblems(registry, problems);
  addBuildInfo(registry);
  const readCpuTime = addProcessMetrics(registry, undefined);
  return {
    lag: (lagMs) => lag.observe({}, lagMs / 1000),
    apiRequest: restClientMetrics(registry),
    async expose() {
      await readCpuTime();
      return registry.expose();
    },
    async read() {
      await readCpuTime();
      return registry.read();
    },
  };
}

function addTraffic(registry: Registry, figures: () => ServingFigures): void {
  const byScope = (
    type: "counter" | "gauge",
    name: string,
    help: string,
    read: (figures: ServingFigures) => ServingFigures["watchers"],
  ) =>
    readWhenShown(registry, type, { name: PREFIX + name, help, labels: ["scope"] }, () => {
      const { global, local } = read(figures());
      return [[{ scope: "global" }, global], [{ scope: "local" }, local]];
    });
  byScope("gauge", "watchers", "Current watchers of the global state and of one node's", ({ watchers }) => watchers);
  byScope("counter", "rounds_total", "Rounds of changes sent to watchers", ({ rounds }) => rounds);
  byScope("counter", "sent_bytes_total", "Bytes of messages sent to watchers", ({ bytes }) => bytes);
  gaugeReadAtScrape(
    registry,
    `${PREFIX}connections`,
    "Current connections, including those without a call",
    () => figures().connections,
  );
}

function addRefusals(registry: Registry, figures: () => ServingFigures): void {
  counterReadAtScrape(
    registry,
    `${PREFIX}slow_readers_dropped_total`,
    "Watchers dropped because they did not read",
    () => figures().slowReaders,
  );
  counterReadAtScrape(
    registry,
    `${PREFIX}watchers_refused_total`,
    "Watchers refused at the limit of their number",
    () => figures().refusedWatchers,
  );
  const closed = {
    name: `${PREFIX}connections_closed_total`,
    help: "Connections refused or closed by the server",
    labels: ["reason"],
  } as const;
  readWhenShown(
    registry,
    "counter",
    closed,
    () => [...figures().closed].map(([reason, count]) => [{ reason }, count] as const),
  );
}

function addSource(registry: Registry, source: () => SourceFigures): void {
  gaugeReadAtScrape(
    registry,
    `${PREFIX}source_ready`,
    "Whether the whole state was read from the source",
    () => source().isReady ? 1 : 0,
  );
  readWhenShown(registry, "gauge", {
    name: `${PREFIX}source_last_event_timestamp_seconds`,
    help: "When the source last reported something, in seconds since 1970",
    labels: [],
  }, () => {
    const { lastEventMs } = source();
    return lastEventMs === undefined ? [] : [[{}, lastEventMs / 1000] as const];
  });
}
