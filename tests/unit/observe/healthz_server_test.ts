import assert from "node:assert/strict";
import { createProxyHealth, startHealthzServer } from "../../../observe/proxy_health.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { ask } from "./http_client.ts";

const START = "2026-01-02T03:04:05.678Z";

async function withServer(
  test: (t: {
    clock: ReturnType<typeof createFakeClock>;
    health: ReturnType<typeof createProxyHealth>;
    address: string;
    counted: string[];
  }) => Promise<void>,
): Promise<void> {
  const clock = createFakeClock(Date.parse(START));
  const health = createProxyHealth({ clock, syncPeriodMs: 30_000 });
  const stop = new AbortController();
  const counted: string[] = [];
  const server = await startHealthzServer({
    bindAddress: "127.0.0.1:0",
    bindAddressHardFail: true,
    health,
    onAnswer: (endpoint, code) => counted.push(`${endpoint} ${code}`),
    clock,
    logger: silentLogger,
    signal: stop.signal,
  });
  try {
    await test({ clock, health, address: server.address()!, counted });
  } finally {
    stop.abort();
  }
}

Deno.test("/healthz answers in kube-proxy's format, including families and node", () =>
  withServer(async ({ clock, health, address, counted }) => {
    health.updated("IPv6");
    health.updated("IPv4");
    clock.advance(60_000);
    const answer = await ask(address, "/healthz");
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("Content-Type"), "application/json");
    assert.equal(answer.headers.get("X-Content-Type-Options"), "nosniff");
    assert.equal(
      answer.body,
      '{"lastUpdated":"2026-01-02T03:05:05.678Z","currentTime":"2026-01-02T03:05:05.678Z","nodeEligible":true,"healthy":true,' +
        '"status":{"IPv4":{"lastUpdated":"2026-01-02T03:04:05.678Z","healthy":true},' +
        '"IPv6":{"lastUpdated":"2026-01-02T03:04:05.678Z","healthy":true}}}',
    );
    assert.deepEqual(counted, ["healthz 200"]);
  }));

Deno.test("a node that is being deleted gets no traffic, but its proxy is live", () =>
  withServer(async ({ health, address, counted }) => {
    health.updated("IPv4");
    health.updated("IPv6");
    health.setNodeEligible(false);
    const healthz = await ask(address, "/healthz");
    assert.equal(healthz.status, 503);
    const { nodeEligible, healthy } = JSON.parse(healthz.body);
    assert.deepEqual({ nodeEligible, healthy }, { nodeEligible: false, healthy: true });
    assert.equal((await ask(address, "/livez")).status, 200);
    assert.deepEqual(counted, ["healthz 503", "livez 200"]);
  }));

Deno.test("a node whose last sync failed gets no traffic, but its proxy is live until the update is overdue", () =>
  withServer(async ({ clock, health, address, counted }) => {
    health.updated("IPv4");
    health.updated("IPv6");
    health.failed("IPv6", "nft is missing");
    const healthz = await ask(address, "/healthz");
    assert.equal(healthz.status, 503);
    const { healthy, status } = JSON.parse(healthz.body);
    assert.deepEqual({ healthy, status }, {
      healthy: false,
      status: {
        IPv4: { lastUpdated: START, healthy: true },
        IPv6: { lastUpdated: START, healthy: false, reason: "nft is missing" },
      },
    });
    assert.equal((await ask(address, "/livez")).status, 200);
    clock.advance(60_000);
    assert.equal((await ask(address, "/livez")).status, 503);
    health.updated("IPv6");
    assert.equal((await ask(address, "/healthz")).status, 200);
    assert.deepEqual(counted, ["healthz 503", "livez 200", "livez 503", "healthz 200"]);
  }));

Deno.test("a rollout waits for the first rules, and not for the node", () =>
  withServer(async ({ health, address }) => {
    const isReady = async () => (await ask(address, "/readyz")).status === 200;
    health.setNodeEligible(false);
    assert.equal(await isReady(), false);
    health.updated("IPv4");
    health.updated("IPv6");
    assert.equal(await isReady(), true);
    health.failed("IPv6", "nft is missing");
    assert.equal(await isReady(), false);
  }));

Deno.test("a node gets no traffic before the rules of both families are in effect, but its proxy is live", () =>
  withServer(async ({ health, address, counted }) => {
    const healthz = await ask(address, "/healthz");
    assert.equal(healthz.status, 503);
    assert.deepEqual(JSON.parse(healthz.body), {
      lastUpdated: "0001-01-01T00:00:00Z",
      currentTime: START,
      nodeEligible: true,
      healthy: false,
    });
    const livez = await ask(address, "/livez");
    assert.equal(livez.status, 200);
    assert.deepEqual(JSON.parse(livez.body), { lastUpdated: START, currentTime: START, healthy: true });
    health.updated("IPv4");
    assert.equal((await ask(address, "/healthz")).status, 503);
    health.updated("IPv6");
    assert.equal((await ask(address, "/healthz")).status, 200);
    assert.deepEqual(counted, ["healthz 503", "livez 200", "healthz 503", "healthz 200"]);
  }));

Deno.test("an overdue proxy is neither healthy nor live, and reports since when and why", () =>
  withServer(async ({ clock, health, address, counted }) => {
    health.updated("IPv4");
    health.workerHealth("IPv4", { state: "restarting", reason: "out of memory", restarts: 3 });
    clock.advance(60_000);
    for (const path of ["/healthz", "/livez"]) {
      const { status, body } = await ask(address, path);
      assert.equal(status, 503);
      const { lastUpdated, healthy, status: families } = JSON.parse(body);
      assert.equal(lastUpdated, START);
      assert.equal(healthy, false);
      assert.deepEqual(families, { IPv4: { lastUpdated: START, healthy: false, reason: "out of memory" } });
    }
    assert.deepEqual(counted, ["healthz 503", "livez 503"]);
  }));

Deno.test("other paths are not found and not counted", () =>
  withServer(async ({ address, counted }) => {
    assert.equal((await ask(address, "/")).status, 404);
    assert.equal((await ask(address, "/livez/x")).status, 404);
    assert.equal((await ask(address, "/livez?verbose")).status, 200);
    assert.deepEqual(counted, ["livez 200"]);
  }));

Deno.test("a node on which packets have stopped gets no traffic, but its proxy is live", () =>
  withServer(async ({ health, address }) => {
    health.updated("IPv4");
    health.updated("IPv6");
    health.setPackets("IPv4", { flow: false, reason: "the table is full" });
    const healthz = await ask(address, "/healthz");
    assert.equal(healthz.status, 503);
    assert.match(healthz.body, /"healthy":true,"packetsFlow":false,"reason":"the table is full"/);
    const livez = await ask(address, "/livez");
    assert.equal(livez.status, 200);
    assert.doesNotMatch(livez.body, /packetsFlow/);
    health.setPackets("IPv4", { flow: true });
    assert.match((await ask(address, "/healthz")).body, /"packetsFlow":true/);
  }));

Deno.test("a canary that has not been tried yet does not keep traffic away", () =>
  withServer(async ({ health, address }) => {
    health.updated("IPv4");
    health.updated("IPv6");
    health.setPackets("IPv4", { flow: undefined });
    assert.equal((await ask(address, "/healthz")).status, 200);
  }));
