import assert from "node:assert/strict";
import { MODE_DESCRIPTIONS } from "../../../../backends/mod.ts";
import type { Family, TrafficReading } from "../../../../core/model/mod.ts";
import { start } from "../../../../features/traffic/start.ts";
import type { NodeFamily } from "../../../../features/contract.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { withManifests, withWholeProxy } from "../../../fakes/whole_proxy.ts";
import { until } from "../../../fakes/wait.ts";

const EMPTY = { ports: [], endpoints: [], counts: new Float64Array(), failures: [] };

async function counting({ hasServices = true, mode = "nftables" } = {}) {
  const clock = createFakeClock();
  const requests: Family[] = [];
  const answers: Record<Family, ((reading: TrafficReading) => void)[]> = { IPv4: [], IPv6: [] };
  const served = (family: Family) => ({
    family,
    hasServices: () => family === "IPv4" || hasServices,
    call() {
      requests.push(family);
      return new Promise((resolve) => answers[family].push(resolve));
    },
  } as unknown as NodeFamily);
  const families = [served("IPv4"), served("IPv6")];
  const end = new AbortController();
  const description = MODE_DESCRIPTIONS.find(({ name }) => name === mode)!;
  const { counts } = await start(
    { mode: description, families, clock, signal: end.signal },
    { traffic: { endpointMetrics: false, periodMs: 10_000 } },
  );
  /** Answers every request to a family's worker. */
  const answer = async (family: Family, durationMs: number) => {
    answers[family].splice(0).forEach((resolve) => resolve({ ...EMPTY, durationMs }));
    await settled();
  };
  return { clock, counts, end, taken: () => requests.splice(0), answer };
}

Deno.test("counters are read every period until the end", async () => {
  const { clock, end, taken, answer } = await counting();
  clock.advance(9_999);
  assert.deepEqual(taken(), []);
  clock.advance(1);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
  await answer("IPv4", 1);
  clock.advance(10_000);
  assert.deepEqual(taken(), ["IPv4"], "a reading is under way in the other family");
  await answer("IPv4", 1);
  await answer("IPv6", 1);
  clock.advance(10_000);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
  for (const family of ["IPv4", "IPv6"] as const) await answer(family, 1);
  end.abort();
  clock.advance(60_000);
  assert.deepEqual(taken(), []);
});

Deno.test("readings take at most a fiftieth of the time", async () => {
  const { clock, taken, answer } = await counting();
  clock.advance(10_000);
  await answer("IPv4", 600);
  await answer("IPv6", 1);
  taken();
  clock.advance(10_000);
  await answer("IPv4", 1);
  await answer("IPv6", 1);
  taken();
  clock.advance(29_999);
  assert.deepEqual(taken(), []);
  clock.advance(1);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
  for (const family of ["IPv4", "IPv6"] as const) await answer(family, 1);
  clock.advance(10_000);
  assert.deepEqual(taken(), ["IPv4", "IPv6"], "a slow reading delays one");
});

Deno.test("counters are read before they expire, however slow a reading is", async () => {
  const { clock, taken, answer } = await counting();
  clock.advance(10_000);
  await answer("IPv4", 60_000);
  await answer("IPv6", 1);
  clock.advance(10_000);
  await answer("IPv4", 1);
  await answer("IPv6", 1);
  taken();
  clock.advance(240_000);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
});

Deno.test("an answer waits for counts that are older than a second", async () => {
  const { clock, counts, taken, answer } = await counting();
  let isDone = false;
  const refresh = counts.refresh().then(() => isDone = true);
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
  await answer("IPv4", 1);
  assert.equal(isDone, false);
  await answer("IPv6", 1);
  await refresh;
  await counts.refresh();
  assert.deepEqual(taken(), []);
  clock.advance(1_001);
  counts.refresh();
  assert.deepEqual(taken(), ["IPv4", "IPv6"]);
});

Deno.test("an answer does not wait for a worker that rests, nor for one that hangs", async () => {
  const { clock, counts, taken } = await counting({ hasServices: false });
  const refresh = counts.refresh();
  assert.deepEqual(taken(), ["IPv4"]);
  clock.advance(2_000);
  await refresh;
});

Deno.test("the counts are those that the mode has", async () => {
  const countsOf = async (mode: string) => (await counting({ mode })).counts.ofPort("IPv4", "a/b|tcp");
  const perSecond = { connections: 0, packets: 0, bytes: 0 };
  assert.deepEqual(await countsOf("nftables"), { ...perSecond, perSecond, failures: {} });
  assert.deepEqual(await countsOf("ipvs"), { ...perSecond, perSecond });
  assert.deepEqual(await countsOf("iptables"), { connections: 0, perSecond: { connections: 0 }, failures: {} });
});

const CLUSTER = `
kind: Service
apiVersion: v1
metadata: { name: web, namespace: shop }
spec: { clusterIP: 10.96.0.10, ports: [{ name: http, port: 80 }] }
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: { name: web-1, namespace: shop, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: http, protocol: TCP, port: 8080 }]
endpoints: [{ addresses: [10.1.0.1], conditions: { ready: true } }]
`;

Deno.test("the metrics and the page of a proxy show what its workers count, until the Service is deleted or while it is off", async () => {
  const shown = async (flags: readonly string[], test: (read: (path: string) => Promise<string>) => Promise<void>) =>
    await withManifests(
      CLUSTER,
      ({ args, write }) =>
        withWholeProxy({ args: [...args, ...flags] }, async ({ url, traffic }) => {
          const read = async (path: string) => await (await fetch(url + path)).text();
          /** Waits until this number of changes of Services is planned. */
          const untilPlanned = async (changes: number) => {
            const planned = new RegExp(`service_changes_pending 0$[^]*service_changes_total ${changes}$`, "m");
            await until(async () => planned.test(await read("metrics")));
          };
          await untilPlanned(1);
          traffic("IPv4", {
            ...{ durationMs: 1, ports: ["shop/web:http|tcp"], endpoints: ["10.1.0.1:8080"], failures: [] },
            counts: Float64Array.of(3, 30, 3_000),
          });
          await test(read);
          write("");
          await untilPlanned(2);
          assert.doesNotMatch(await read("metrics"), /service="web"/);
        }),
    );
  await shown(["--traffic-metrics"], async (read) => {
    assert.match(await read("metrics"), /^sluice_service_connections_total\{namespace="shop",service="web".*\} 3$/m);
    assert.match(await read(""), /3 connections/);
  });
  await shown([], async (read) => {
    assert.doesNotMatch(await read("metrics"), /sluice_service_connections/);
    assert.doesNotMatch(await read(""), /connections/);
  });
});
