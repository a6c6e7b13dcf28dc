import assert from "node:assert/strict";
import { MODE_DESCRIPTIONS } from "../../../backends/mod.ts";
import type { Family } from "../../../core/model/mod.ts";
import { startTraffic } from "../../../proxy/traffic.ts";
import type { ServedFamily } from "../../../proxy/served_family.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

const EMPTY = { ports: [], endpoints: [], counts: new Float64Array(), failures: [] };

async function counting({ hasServicePorts = true, mode = "nftables" } = {}) {
  const clock = createFakeClock();
  const requests: Family[] = [];
  const served = (family: Family) => ({
    family,
    hasServicePorts: () => family === "IPv4" || hasServicePorts,
    readTraffic: () => void requests.push(family),
  } as unknown as ServedFamily);
  const families = [served("IPv4"), served("IPv6")];
  const traffic = await startTraffic({
    configuration: {
      traffic: { metrics: true, endpointMetrics: false, periodMs: 10_000 },
      modeDescription: MODE_DESCRIPTIONS.find(({ name }) => name === mode)!,
    },
    families: () => families,
    clock,
  });
  return { clock, traffic, taken: () => requests.splice(0) };
}

Deno.test("counters are read every period until the end", async () => {
  const { clock, traffic, taken } = await counting();
  clock.advance(9_999);
  assert.deepEqual(taken(), []);
  clock.advance(1);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
  clock.advance(10_000);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
  traffic.stop();
  clock.advance(60_000);
  assert.deepEqual(taken(), []);
});

Deno.test("readings take at most a fiftieth of the time", async () => {
  const { clock, traffic, taken } = await counting();
  clock.advance(10_000);
  traffic.note("IPv4", { ...EMPTY, durationMs: 600 });
  taken();
  clock.advance(10_000);
  taken();
  clock.advance(29_999);
  assert.deepEqual(taken(), []);
  clock.advance(1);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
});

Deno.test("counters are read before they expire, however slow a reading is", async () => {
  const { clock, traffic, taken } = await counting();
  traffic.note("IPv4", { ...EMPTY, durationMs: 60_000 });
  clock.advance(10_000);
  taken();
  clock.advance(240_000);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
});

Deno.test("an answer waits for counts that are older than a second", async () => {
  const { clock, traffic, taken } = await counting();
  let isDone = false;
  const refresh = traffic.refresh().then(() => isDone = true);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
  traffic.note("IPv4", { ...EMPTY, durationMs: 1 });
  await settled();
  assert.equal(isDone, false);
  traffic.note("IPv6", { ...EMPTY, durationMs: 1 });
  await refresh;
  await traffic.refresh();
  assert.deepEqual(taken(), []);
  clock.advance(1_001);
  traffic.refresh();
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
});

Deno.test("an answer does not wait for a worker that rests, nor for one that hangs", async () => {
  const { clock, traffic, taken } = await counting({ hasServicePorts: false });
  const refresh = traffic.refresh();
  assert.deepEqual(taken(), ["IPv4"]);
  clock.advance(2_000);
  await refresh;
});

Deno.test("the counts are those that the mode has", async () => {
  const countsOf = async (mode: string) => (await counting({ mode })).traffic.recorder.ofPort("IPv4", "a/b|tcp");
  const perSecond = { connections: 0, packets: 0, bytes: 0 };
  assert.deepEqual(await countsOf("nftables"), { ...perSecond, perSecond, failures: {} });
  assert.deepEqual(await countsOf("ipvs"), { ...perSecond, perSecond });
  assert.deepEqual(await countsOf("iptables"), { connections: 0, perSecond: { connections: 0 }, failures: {} });
});
