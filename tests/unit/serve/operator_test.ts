/** Health and metrics of `sluice serve`, over HTTP. */
import assert from "node:assert/strict";
import { createProblemBoard } from "../../../core/problems/mod.ts";
import type { Metric } from "../../../kpng/server/mod.ts";
import { createServingMetrics, type SourceCounts, startServingServers } from "../../../serve/operator.ts";
import { systemClock } from "../../../platform/clock.ts";
import { silentLogger } from "../../../platform/log.ts";

const COUNTS = new Map<Metric, number>([
  ["watchers local", 5],
  ["rounds global", 30],
  ["bytes local", 500],
  ["connections", 9],
  ["closed: no call", 2],
  ["slow readers", 4],
  ["refused watchers", 6],
]);

/** Runs a test against both servers of a source in that state. */
async function withServers(
  test: (context: {
    readonly problems: ReturnType<typeof createProblemBoard>;
    readonly metrics: ReturnType<typeof createServingMetrics>;
    set(source: SourceCounts): void;
    get(server: "health" | "metrics", path: string): Promise<{ status: number; body: string }>;
  }) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  let source: SourceCounts = { isReady: false, lastEventMs: undefined };
  const problems = createProblemBoard(systemClock, silentLogger);
  const metrics = createServingMetrics({
    count: (name) => COUNTS.get(name) ?? 0,
    source: () => source,
    problems: () => problems.counts(),
  });
  const servers = await startServingServers({
    healthzBindAddress: "127.0.0.1:0",
    metricsBindAddress: "127.0.0.1:0",
    source: () => source,
    metrics,
    problems,
    clock: systemClock,
    logger: silentLogger,
    signal: stop.signal,
  });
  try {
    await test({
      problems,
      metrics,
      set: (next) => void (source = next),
      async get(server, path) {
        const answer = await fetch(`http://${servers[server].address()}${path}`);
        return { status: answer.status, body: await answer.text() };
      },
    });
  } finally {
    stop.abort();
  }
}

Deno.test("a server is ready once the whole state was read, and stays so when its source fails", async () => {
  await withServers(async ({ get, set, problems }) => {
    const statuses = () =>
      Promise.all(["/healthz", "/readyz", "/livez"].map(async (path) => (await get("health", path)).status));
    assert.deepEqual(await statuses(), [503, 503, 200]);
    set({ isReady: true, lastEventMs: 1_700_000_000_000 });
    assert.deepEqual(await statuses(), [200, 200, 200]);
    problems.report("source", [{ code: "source-unreachable", subject: "services", detail: "timeout" }]);
    problems.report("object", [{ code: "object-invalid", subject: "default/web", detail: "no port" }]);
    const { status, body } = await get("health", "/healthz");
    assert.equal(status, 200);
    const { ready, lastEvent, problems: shown } = JSON.parse(body);
    assert.deepEqual([ready, lastEvent], [true, "2023-11-14T22:13:20.000Z"]);
    const [{ since, ...problem }] = shown;
    assert.deepEqual([shown.length, problem], [1, { code: "source-unreachable", subject: "services" }]);
    assert.equal(since, new Date(Date.parse(since)).toISOString());
    assert.equal((await get("health", "/metrics")).status, 404);
  });
});

Deno.test("the metrics show the server, its lag, its source and its process", async () => {
  await withServers(async ({ get, set, metrics, problems }) => {
    const shown = async (line: string) =>
      assert.ok((await get("metrics", "/metrics")).body.includes(`\n${line}\n`), line);
    await shown("sluice_serve_source_ready 0");
    assert.doesNotMatch((await get("metrics", "/metrics")).body, /^sluice_serve_source_last_event_timestamp_seconds /m);
    set({ isReady: true, lastEventMs: 1_700_000_000_500 });
    metrics.lag(3);
    metrics.lag(40);
    problems.report("source", [{ code: "source-unreachable", subject: "services", detail: "timeout" }]);
    for (
      const line of [
        'sluice_serve_watchers{scope="local"} 5',
        'sluice_serve_rounds_total{scope="global"} 30',
        'sluice_serve_sent_bytes_total{scope="local"} 500',
        "sluice_serve_connections 9",
        'sluice_serve_connections_closed_total{reason="no call"} 2',
        "sluice_serve_slow_readers_dropped_total 4",
        "sluice_serve_watchers_refused_total 6",
        'sluice_serve_change_lag_seconds_bucket{le="0.004"} 1',
        "sluice_serve_change_lag_seconds_count 2",
        "sluice_serve_source_ready 1",
        "sluice_serve_source_last_event_timestamp_seconds 1700000000.5",
        'sluice_problem{code="source-unreachable",severity="error"} 1',
      ]
    ) await shown(line);
    const { body } = await get("metrics", "/metrics");
    assert.match(body, /^process_resident_memory_bytes \d/m);
    assert.match(body, /^sluice_build_info\{/m);
    assert.equal((await get("metrics", "/healthz")).body, "ok");
    assert.match((await get("metrics", "/")).body, /\/metrics/);
  });
});

Deno.test("a server that cannot listen is a problem, which the other one shows", async () => {
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 }), { port } = taken.addr as Deno.NetAddr;
  for (const [name, address] of [["health server", "healthzBindAddress"], ["metrics server", "metricsBindAddress"]]) {
    const stop = new AbortController(), problems = createProblemBoard(systemClock, silentLogger);
    const source = () => ({ isReady: true, lastEventMs: undefined });
    const metrics = createServingMetrics({ count: () => 0, source, problems: problems.counts });
    const servers = await startServingServers({
      ...{ healthzBindAddress: "127.0.0.1:0", metricsBindAddress: "127.0.0.1:0", [address!]: `127.0.0.1:${port}` },
      ...{ source, metrics, problems, clock: systemClock, logger: silentLogger, signal: stop.signal },
    });
    assert.deepEqual(problems.current().map(({ code, subject }) => [code, subject]), [["server-not-listening", name]]);
    if (name === "metrics server") {
      const answer = await fetch(`http://${servers.health.address()}/healthz`);
      assert.deepEqual((await answer.json()).problems.map(({ subject }: { subject: string }) => subject), [name]);
    }
    stop.abort();
  }
  taken.close();
});
