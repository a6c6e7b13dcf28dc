/** The API server misbehaves: what was served is served on, and what changed meanwhile comes into effect. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { createBackoff } from "../../platform/retry.ts";
import { statusResponse } from "../fakes/api_server.ts";
import { rememberState } from "./as_fresh.ts";
import { change, cluster, clusterSlice } from "./cluster.ts";
import { API_LINK, type ChaosLab, withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Extent, type Figures, type Scenario } from "./scenario.ts";
import { createSentinel } from "./sentinel.ts";
import { startSluice } from "./sluice.ts";

const SERVICES = 100;
const MODE: ProxyMode = "nftables";

interface Fault {
  readonly name: string;
  /** Does it once, with changes in the middle of it. */
  run(lab: ChaosLab, change: () => void): Promise<void> | void;
}

const pause = (ms: number) => sleep(systemClock, ms);

const FAULTS: readonly Fault[] = [
  {
    name: "watches broken, and ended in good order",
    async run({ api }, change) {
      api.dropWatches("broken");
      change();
      await pause(50);
      api.dropWatches("orderly");
    },
  },
  {
    name: "a watch that breaks off in the middle of a line",
    run({ api }, change) {
      api.send("EndpointSlice", '{"type":"MODIFIED","object":{"kind":"EndpointSl');
      api.dropWatches("broken");
      change();
    },
  },
  {
    name: "a line that makes no sense",
    run({ api }, change) {
      api.send("EndpointSlice", '{"type":"MODIFIED","object":\n');
      change();
    },
  },
  {
    name: "410: the history is gone",
    run({ api }, change) {
      change();
      api.expire();
      api.dropWatches("broken");
    },
  },
  {
    name: "every event twice, and an old one in between",
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
    name: "500 to everything for a second",
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
      await link("down");
      change();
      await pause(2000);
      await link("up");
    },
  },
  {
    name: "a restore from a backup: resourceVersions go back, objects are missing",
    run({ api }, change) {
      api.restore(3);
      api.apply(...cluster(SERVICES));
      applyEcho({ api });
      change();
      api.dropWatches("broken");
    },
  },
];

/** In nftables mode: what the API says is planned in the same way in every mode. */
export const api: readonly Scenario[] = [
  { name: "api: it misbehaves in every way while Sluice runs", run: misbehaves },
  { name: "api: it is away for the whole start", run: isAwayAtStart },
  { name: "api: a thousand nodes that start at once", run: () => Promise.resolve(thousandNodes()) },
];

function misbehaves({ long }: Extent): Promise<Figures> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    let sentinel = createSentinel(lab);
    const sluice = await startSluice(lab, { mode: MODE });
    await sentinel.settle();
    const first = await rememberState(lab, MODE);
    const traffic = startTraffic(lab, SERVICES);
    const figures: Record<string, string | number> = {};
    let round = 0;
    for (const { name, run } of FAULTS) {
      let longestMs = 0;
      const times = long ? 20 : 2;
      for (let i = 0; i < times; i++) {
        await run(lab, () => change(lab, SERVICES, round++));
        if (name.startsWith("a restore")) sentinel = createSentinel(lab);
        longestMs = Math.max(longestMs, await sentinel.move(60_000));
        // A watch that lives for less than a second counts as a failure, as with client-go, and the waits grow.
        await pause(1200);
      }
      figures[`${name}: times, changes in effect after at most ms`] = `${times}, ${Math.round(longestMs)}`;
    }
    lab.api.apply(...cluster(SERVICES));
    await sentinel.settle();
    Object.assign(figures, await traffic.end());
    await first.isBack(10_000);
    await sluice.end("SIGTERM");
    return figures;
  });
}

function isAwayAtStart(): Promise<Figures> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const sentinel = createSentinel(lab);
    const before = await startSluice(lab, { mode: MODE });
    await sentinel.settle();
    const first = await rememberState(lab, MODE);
    const traffic = startTraffic(lab, SERVICES);
    await pause(1000);
    await before.end("SIGKILL");
    await link("down");
    const sluice = await startSluice(lab, { mode: MODE });
    await pause(5000);
    assert.ok(await first.holds(), "the rules of the last run have changed");
    await link("up");
    const tookMs = await sentinel.move(60_000);
    await sentinel.settle();
    const figures = await traffic.end();
    await first.isBack(10_000);
    await sluice.end("SIGTERM");
    return { "away for ms, in effect after it was back, ms": `5000, ${Math.round(tookMs)}`, ...figures };
  });
}

async function link(state: "up" | "down"): Promise<void> {
  const args = ["link", "set", API_LINK.device, state];
  const { success } = await new Deno.Command("ip", { args, stdin: "null" }).output();
  assert.ok(success, `the link to the API server did not go ${state}`);
}

/** When nodes ask again that were all refused at the same moment, by the waits that the source is given. */
function thousandNodes(): Figures {
  const backoffs = Array.from({ length: 1000 }, () => createBackoff({ firstMs: 250, longestMs: 30_000 }));
  const times = backoffs.map(() => 0);
  const figures: Record<string, string> = {};
  for (let attempt = 1; attempt <= 8; attempt++) {
    backoffs.forEach((backoff, i) => times[i]! += backoff.nextMs());
    const perTenth = new Map<number, number>();
    for (const time of times) perTenth.set(Math.floor(time / 100), (perTenth.get(Math.floor(time / 100)) ?? 0) + 1);
    const busiest = Math.max(...perTenth.values());
    figures[`try ${attempt}: from, to s; most in a tenth of a second`] = [
      (Math.min(...times) / 1000).toFixed(1),
      (Math.max(...times) / 1000).toFixed(1),
      busiest,
    ].join(", ");
    if (attempt >= 5) assert.ok(busiest < 100, `${busiest} of 1,000 nodes ask within a tenth of a second`);
  }
  return figures;
}
