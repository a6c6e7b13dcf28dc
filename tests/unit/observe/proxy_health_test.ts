import assert from "node:assert/strict";
import { createProxyHealth } from "../../../observe/mod.ts";
import { createFakeClock } from "../../fakes/clock.ts";

const START = 1_700_000_000_000;
const PERIOD = 30_000;

function setUp() {
  const clock = createFakeClock(START);
  return { clock, health: createProxyHealth({ clock, syncPeriodMs: PERIOD }) };
}

Deno.test("a proxy without a synced family is healthy, however long its first sync takes", () => {
  const { clock, health } = setUp();
  health.queuedUpdate("IPv4");
  clock.advance(10 * PERIOD);
  assert.deepEqual(health.status(), { healthy: true, inEffect: false, lastUpdatedMs: undefined, families: [] });
});

Deno.test("a change is overdue after waiting for two sync periods, and not earlier", () => {
  const { clock, health } = setUp();
  health.updated("IPv4");
  health.queuedUpdate("IPv4");
  clock.advance(2 * PERIOD - 1);
  assert.equal(health.status().healthy, true);
  clock.advance(1);
  assert.equal(health.status().healthy, false);
});

Deno.test("the oldest pending change counts: later changes do not extend the deadline", () => {
  const { clock, health } = setUp();
  health.updated("IPv4");
  health.queuedUpdate("IPv4");
  clock.advance(PERIOD);
  health.queuedUpdate("IPv4");
  clock.advance(PERIOD);
  assert.equal(health.status().healthy, false);
});

Deno.test("a sync makes an overdue family healthy again; without changes it stays healthy", () => {
  const { clock, health } = setUp();
  health.updated("IPv4");
  health.queuedUpdate("IPv4");
  clock.advance(2 * PERIOD);
  health.updated("IPv4");
  clock.advance(100 * PERIOD);
  assert.deepEqual(health.status(), {
    healthy: true,
    inEffect: false,
    lastUpdatedMs: START + 2 * PERIOD,
    families: [{ family: "IPv4", lastUpdatedMs: START + 2 * PERIOD, healthy: true, reason: undefined }],
  });
});

Deno.test("one lagging family makes the proxy unhealthy, and no other family", () => {
  const { clock, health } = setUp();
  health.updated("IPv6");
  health.queuedUpdate("IPv6");
  clock.advance(2 * PERIOD);
  health.updated("IPv4");
  const status = health.status();
  assert.equal(status.healthy, false);
  assert.equal(status.lastUpdatedMs, START + 2 * PERIOD);
  assert.deepEqual(status.families.map(({ family, healthy }) => [family, healthy]), [["IPv4", true], ["IPv6", false]]);
});

Deno.test("a failed worker is reported immediately, and is unhealthy if it stays down, even before its first sync", () => {
  for (
    const down of [
      { state: "restarting", reason: "it hung", restarts: 1 },
      { state: "unfit", reason: "it hung", unsupported: false },
    ] as const
  ) {
    const { clock, health } = setUp();
    health.workerHealth("IPv6", down);
    assert.deepEqual(health.status(), {
      healthy: true,
      inEffect: false,
      lastUpdatedMs: undefined,
      families: [{ family: "IPv6", lastUpdatedMs: undefined, healthy: true, reason: "it hung" }],
    });
    clock.advance(2 * PERIOD);
    assert.equal(health.status().healthy, false);
    health.workerHealth("IPv6", { state: "ready" });
    assert.equal(health.status().healthy, false, "it was restarted, but has not synced");
    health.updated("IPv6");
    assert.deepEqual(health.status().families[0], {
      family: "IPv6",
      lastUpdatedMs: START + 2 * PERIOD,
      healthy: true,
      reason: undefined,
    });
  }
});

Deno.test("a failed sync is reported until one succeeds, and is a pending update", () => {
  const { clock, health } = setUp();
  health.failed("IPv4", "nft is missing");
  assert.deepEqual(
    health.status(),
    { healthy: true, inEffect: false, failure: "nft is missing", lastUpdatedMs: undefined, families: [] },
    "a first sync may take long",
  );
  health.updated("IPv4");
  health.updated("IPv6");
  assert.deepEqual(health.status().failure, undefined);
  health.failed("IPv4", "nft is missing");
  const { healthy, failure, families } = health.status();
  assert.deepEqual({ healthy, failure }, { healthy: true, failure: "nft is missing" });
  assert.deepEqual(families.map(({ family, healthy, reason }) => ({ family, healthy, reason })), [
    { family: "IPv4", healthy: false, reason: "nft is missing" },
    { family: "IPv6", healthy: true, reason: undefined },
  ]);
  clock.advance(2 * PERIOD);
  assert.equal(health.status().healthy, false);
  health.workerHealth("IPv4", { state: "unfit", reason: "no iptables", unsupported: true });
  assert.equal(health.status().failure, undefined);
});

Deno.test("a proxy is healthy without a family that the host does not support", () => {
  const { clock, health } = setUp();
  health.queuedUpdate("IPv6");
  health.workerHealth("IPv6", { state: "unfit", reason: "no ip6tables", unsupported: true });
  clock.advance(10 * PERIOD);
  assert.deepEqual(health.status(), { healthy: true, inEffect: false, lastUpdatedMs: undefined, families: [] });
  health.updated("IPv4");
  assert.equal(health.status().inEffect, true);
});

Deno.test("the rules are in effect once both families have synced, and stay so while a worker is down", () => {
  const { health } = setUp();
  const inEffect = () => health.status().inEffect;
  health.updated("IPv4");
  assert.equal(inEffect(), false);
  health.updated("IPv6");
  assert.equal(inEffect(), true);
  health.workerHealth("IPv6", { state: "restarting", reason: "it hung", restarts: 1 });
  health.queuedUpdate("IPv4");
  assert.equal(inEffect(), true);
});

Deno.test("the node is eligible until reported otherwise", () => {
  const { health } = setUp();
  assert.equal(health.nodeEligible(), true);
  health.setNodeEligible(false);
  assert.equal(health.nodeEligible(), false);
  assert.equal(health.status().healthy, true, "the proxy itself stays healthy");
});

Deno.test("a resting family stays healthy, and becomes unhealthy if it does not sync in time once it is needed", () => {
  const { clock, health } = setUp();
  for (const family of ["IPv4", "IPv6"] as const) health.updated(family);
  health.workerHealth("IPv6", { state: "resting" });
  clock.advance(100 * PERIOD);
  const { healthy, inEffect, families } = health.status();
  assert.deepEqual({ healthy, inEffect }, { healthy: true, inEffect: true });
  assert.deepEqual(families[1], { family: "IPv6", lastUpdatedMs: START, healthy: true, reason: undefined });
  health.queuedUpdate("IPv6");
  health.workerHealth("IPv6", { state: "starting" });
  clock.advance(2 * PERIOD);
  assert.equal(health.status().healthy, false);
});

Deno.test("packets of the family that is worst off count, and none without a canary", () => {
  const { health } = setUp();
  health.setPackets("IPv4", { flow: true });
  assert.deepEqual(health.status().packets, { flow: true });
  health.setPackets("IPv6", { flow: undefined });
  assert.deepEqual(health.status().packets, { flow: undefined });
  health.setPackets("IPv4", { flow: false, reason: "why" });
  assert.deepEqual(health.status().packets, { flow: false, reason: "why" });
  health.setPackets("IPv4", undefined);
  health.setPackets("IPv6", undefined);
  assert.equal("packets" in health.status(), false);
});
