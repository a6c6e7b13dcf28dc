/** The API server misbehaves: services stay served, and changes made meanwhile come into effect. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { createBackoff } from "../../platform/retry.ts";
import { statusResponse } from "../fakes/api_server.ts";
import { change, cluster, clusterSlice } from "./cluster.ts";
import { takeSnapshot } from "./kernel.ts";
import { type ChaosLab, setApiLink, withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Counts, type Extent, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";

const SERVICES = 100;
const MODE: ProxyMode = "nftables";

interface Fault {
  readonly name: string;
  /** Injects the fault once, with changes in the middle. */
  run(lab: ChaosLab, change: () => void): Promise<void> | void;
}

const pause = (ms: number) => sleep(systemClock, ms);

const FAULTS: readonly Fault[] = [
  {
    name: "watches break, and end cleanly",
    async run({ api }, change) {
      api.dropWatches("broken");
      change();
      await pause(50);
      api.dropWatches("orderly");
    },
  },
  {
    name: "a watch breaks in the middle of a line",
    run({ api }, change) {
      api.send("EndpointSlice", '{"type":"MODIFIED","object":{"kind":"EndpointSl');
      api.dropWatches("broken");
      change();
    },
  },
  {
    name: "a watch event is malformed",
    run({ api }, change) {
      api.send("EndpointSlice", '{"type":"MODIFIED","object":\n');
      change();
    },
  },
  {
    name: "410 Gone",
    run({ api }, change) {
      change();
      api.expire();
      api.dropWatches("broken");
    },
  },
  {
    name: "every event twice, with a stale one in between",
    run({ api }, change) {
      change();
      const old = { ...clusterSlice(0, 7) };
      api.send("EndpointSlice", JSON.stringify({ type: "MODIFIED", object: old }) + "\n");
      api.apply(clusterSlice(0, 8), clusterSlice(0, 8));
    },
  },
  {
    name: "429 with Retry-After for a second",
    async run({ api }, change) {
      api.fault(() => statusResponse(429, "TooManyRequests", "slow down", { "retry-after": "1" }));
      api.dropWatches();
      change();
      await pause(1000);
      api.fault(undefined);
    },
  },
  {
    name: "500 to every request for a second",
    async run({ api }, change) {
      api.fault(() => statusResponse(500, "InternalError", "etcdserver: leader changed"));
      api.dropWatches("broken");
      change();
      await pause(1000);
      api.fault(undefined);
    },
  },
  {
    name: "the link down for two seconds",
    async run(_lab, change) {
      await setApiLink("down");
      change();
      await pause(2000);
      await setApiLink("up");
    },
  },
  {
    name: "restored from a backup: resourceVersions go back, objects are missing",
    run({ api }, change) {
      api.restore(3);
      api.apply(...cluster(SERVICES));
      applyEcho({ api });
      change();
      api.dropWatches("broken");
    },
  },
];

/** In nftables mode only, because planning from the API does not depend on the mode. */
export const api: readonly Scenario[] = [
  { name: "api: it misbehaves in every way while Sluice runs", inGate: true, run: misbehaves },
  { name: "api: it is unreachable while Sluice starts", run: isUnreachableAtStart },
  {
    name: "api: a thousand nodes retry without thundering",
    inGate: true,
    run: (extent) => Promise.resolve(thousandNodes(extent)),
  },
];

function misbehaves({ long }: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    let marker = createSyncMarker(lab);
    const sluice = await startSluice(lab, { mode: MODE });
    await marker.settle();
    const first = await takeSnapshot(lab, MODE);
    const traffic = startTraffic(lab, SERVICES);
    const counts: Record<string, string | number> = {};
    let round = 0;
    for (const { name, run } of FAULTS) {
      let longestMs = 0;
      const times = long ? 20 : 1;
      for (let i = 0; i < times; i++) {
        await run(lab, () => change(lab, SERVICES, round++));
        if (name.startsWith("restored")) marker = createSyncMarker(lab);
        longestMs = Math.max(longestMs, await marker.move(60_000));
        // As in client-go, a watch that ends within a second counts as a failure and increases the backoff.
        await pause(1200);
      }
      counts[`${name}: times, slowest change in effect after ms`] = `${times}, ${Math.round(longestMs)}`;
    }
    lab.api.apply(...cluster(SERVICES));
    await marker.settle();
    Object.assign(counts, await traffic.end());
    await first.waitUntilRestored(10_000);
    await sluice.end("SIGTERM");
    return counts;
  });
}

function isUnreachableAtStart(): Promise<Counts> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const marker = createSyncMarker(lab);
    const before = await startSluice(lab, { mode: MODE });
    await marker.settle();
    const first = await takeSnapshot(lab, MODE);
    const traffic = startTraffic(lab, SERVICES);
    await pause(1000);
    await before.end("SIGKILL");
    await setApiLink("down");
    const sluice = await startSluice(lab, { mode: MODE });
    await pause(5000);
    await first.assertUnchanged("the rules of the previous run changed");
    await setApiLink("up");
    const tookMs = await marker.move(60_000);
    await marker.settle();
    const counts = await traffic.end();
    await first.waitUntilRestored(10_000);
    await sluice.end("SIGTERM");
    return {
      "unreachable for ms, in effect ms after it was reachable again": `5000, ${Math.round(tookMs)}`,
      ...counts,
    };
  });
}

/** The retry times of nodes that all failed at the same moment, with the source's backoff. */
function thousandNodes({ random }: Extent): Counts {
  const backoffs = Array.from({ length: 1000 }, () => createBackoff({ firstMs: 250, longestMs: 30_000, random }));
  const times = backoffs.map(() => 0);
  const counts: Record<string, string> = {};
  for (let attempt = 1; attempt <= 8; attempt++) {
    backoffs.forEach((backoff, i) => times[i]! += backoff.nextMs());
    const perTenth = new Map<number, number>();
    for (const time of times) perTenth.set(Math.floor(time / 100), (perTenth.get(Math.floor(time / 100)) ?? 0) + 1);
    const busiest = Math.max(...perTenth.values());
    counts[`retry ${attempt}: from, to s; most in a tenth of a second`] = [
      (Math.min(...times) / 1000).toFixed(1),
      (Math.max(...times) / 1000).toFixed(1),
      busiest,
    ].join(", ");
    if (attempt >= 5) assert.ok(busiest < 100, `${busiest} of 1,000 nodes retry within a tenth of a second`);
  }
  return counts;
}
