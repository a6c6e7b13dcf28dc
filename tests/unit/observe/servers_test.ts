/** The servers of a proxy, and what happens when their ports are taken. */
import assert from "node:assert/strict";
import { MODE_DESCRIPTIONS } from "../../../backends/mod.ts";
import { createProblemBoard } from "../../../core/problems/mod.ts";
import { createMetrics } from "../../../observe/metrics.ts";
import { createProxyHealth } from "../../../observe/mod.ts";
import { startOperatorServers } from "../../../observe/servers.ts";
import { createConnectionLimits } from "../../../platform/http/mod.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { NOTHING_COUNTED } from "../../fakes/metric_sources.ts";
import { STATUS_PAGE } from "../../fakes/metrics_server.ts";
import { reservePort } from "../../fakes/sockets.ts";
import { accepted } from "../config/parse.ts";
import { ask } from "./http_client.ts";

/** Starts both servers at these ports. */
function start(health: number, metrics: number, signal: AbortSignal, ...flags: readonly string[]) {
  const clock = createFakeClock(), problems = createProblemBoard(clock, silentLogger);
  const args = [`--healthz-bind-address=127.0.0.1:${health}`, `--metrics-bind-address=127.0.0.1:${metrics}`, ...flags];
  const started = startOperatorServers({
    configuration: accepted(args).configuration,
    health: createProxyHealth({ clock, syncPeriodMs: 30_000 }),
    metrics: createMetrics({ ...NOTHING_COUNTED, mode: MODE_DESCRIPTIONS[0]! }),
    ...{ problems, clock, signal, logger: silentLogger, flags: new Map(), loggingFormat: "text", startedAtMs: 0 },
    statusPage: () => Promise.resolve(STATUS_PAGE),
    limits: createConnectionLimits({ clock }),
  });
  return { clock, started, closed: () => problems.current().map(({ code, subject }) => [code, subject]) };
}

Deno.test("the health server's answers are counted by the metrics server", async () => {
  const stop = new AbortController(), health = reservePort(), metrics = reservePort();
  await start(health, metrics, stop.signal).started;
  for (const path of ["/healthz", "/livez", "/livez", "/readyz"]) await ask(`127.0.0.1:${health}`, path);
  const { body } = await ask(`127.0.0.1:${metrics}`, "/metrics");
  const counted = [...body.matchAll(/^\w+_proxy_(\w+z)_total\{code="(\d+)"\} (\d+)$/gm)].map(([, ...of]) =>
    of.join(" ")
  );
  assert.deepEqual(counted.sort(), ["healthz 503 1", "livez 200 2", "readyz 503 1"]);
  stop.abort();
});

Deno.test("a port that is taken is a problem until it is free, or ends the start with bindAddressHardFail", async () => {
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr as Deno.NetAddr;
  const hard = new AbortController();
  await assert.rejects(
    start(port, reservePort(), hard.signal, "--bind-address-hard-fail").started,
    /the health server cannot listen on/,
  );
  await assert.rejects(
    start(reservePort(), port, hard.signal, "--bind-address-hard-fail").started,
    /the metrics server cannot listen on/,
  );
  hard.abort();
  const stop = new AbortController();
  const soft = [start(port, reservePort(), stop.signal), start(reservePort(), port, stop.signal)];
  for (const [i, name] of ["health server", "metrics server"].entries()) {
    await soft[i]!.started;
    assert.deepEqual(soft[i]!.closed(), [["server-not-listening", name]]);
  }
  taken.close();
  await soft[0]!.clock.advanceSettled(5_000);
  assert.deepEqual(soft[0]!.closed(), []);
  stop.abort();
});
