import type { ServingFigures } from "../../kpng/server/mod.ts";
import type { SourceServer } from "../../core/objects/mod.ts";
import type { ProblemCode } from "../../core/problems/mod.ts";
import {
  addBuildInfo,
  addLink,
  addProblems,
  addProcessMetrics,
  addServers,
  type ApiRequestOutcome,
  counterReadAtScrape,
  createRegistry,
  gaugeReadAtScrape,
  metricMaker,
  type MetricReading,
  readWhenShown,
  restClientMetrics,
  type SourceLink,
  SYNC_BUCKETS,
} from "../mod.ts";

/** The state of the source that a server passes on. */
export interface SourceFigures {
  /** Whether the whole state has been read, so that watchers are answered. */
  readonly isReady: boolean;
  /** When the source last reported something, in milliseconds since 1970; undefined before the first report. */
  readonly lastEventMs: number | undefined;
}

/** The metrics of `sluice serve`. */
export interface ServingMetrics {
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
export interface ServingMetricsOptions {
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

/** Creates the metrics of a server, named `sluice_serve_…`, and those of its process and its API client. */
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
