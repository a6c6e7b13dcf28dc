/** Churn for an hour: memory, handles and processes stay where they are, every change comes into effect, nothing else is touched. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { cluster, clusterSlice, isProbed } from "./cluster.ts";
import { withLab } from "./lab.ts";
import { type Holdings, holdings, syncs } from "./observe.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Figures, MODES, type Scenario } from "./scenario.ts";
import { createSentinel } from "./sentinel.ts";
import { startSluice } from "./sluice.ts";

const SERVICES = 1000;
const CHANGES_PER_SECOND = 50;
const TURN_MS = 100;
const SAMPLE_MS = 5000;
/** With minSyncPeriod 1s: a sync that has just begun, its rest, and the sync itself. */
const IN_EFFECT_WITHIN_MS = 5000;
/** Half an hour's growth that is still noise of the garbage collector. */
const GROWTH_MB_PER_HOUR = 10;

/** Both modes, half of CHAOS_MINUTES each; an hour by default. */
export const longRun: readonly Scenario[] = MODES.map((mode) => ({
  name: `long run: ${CHANGES_PER_SECOND} changes a second at ${SERVICES} services, ${mode}`,
  onlyLong: true,
  run: () => churn(mode, Number(Deno.env.get("CHAOS_MINUTES") ?? 60) / 2),
}));

function churn(mode: ProxyMode, minutes: number): Promise<Figures> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const sentinel = createSentinel(lab);
    const sluice = await startSluice(lab, { mode, minSyncPeriod: "1s" });
    await sentinel.settle();
    const traffic = startTraffic(lab, SERVICES);
    const changing = Array.from({ length: SERVICES }, (_, index) => index).filter((index) => !isProbed(index));
    const samples: (Holdings & { readonly atMs: number })[] = [];
    const startedMs = systemClock.monotonic(), lengthMs = minutes * 60_000;
    let changes = 0, slowestMs = 0, moves = 0, sampledMs = startedMs;
    let moving: Promise<unknown> | undefined;
    for (let elapsedMs = 0; elapsedMs < lengthMs; elapsedMs = systemClock.monotonic() - startedMs) {
      for (const due = elapsedMs / 1000 * CHANGES_PER_SECOND; changes < due; changes++) {
        const index = changing[changes % changing.length]!;
        lab.api.apply(clusterSlice(index, 1 + Math.floor(changes / changing.length)));
      }
      if (systemClock.monotonic() - sampledMs >= SAMPLE_MS) {
        sampledMs = systemClock.monotonic();
        samples.push({ atMs: elapsedMs, ...holdings(sluice.pid) });
        lab.api.forgetEvents();
      }
      moving ??= sentinel.move().then((tookMs) => {
        slowestMs = Math.max(slowestMs, tookMs);
        moves++;
        moving = undefined;
      });
      await sleep(systemClock, TURN_MS);
    }
    await moving;
    const warm = samples.filter(({ atMs }) => atMs > lengthMs / 4);
    const growth = slopePerHour(warm.map(({ atMs, residentMB }) => [atMs, residentMB]));
    const handles = warm.map((sample) => sample.handles);
    const figures: Record<string, string | number> = {
      "minutes, changes, syncs of IPv4": `${minutes}, ${changes}, ${await syncs("IPv4")}`,
      "changes watched into effect, slowest ms": `${moves}, ${Math.round(slowestMs)}`,
      "resident MB: first, lowest and highest after warm-up, last": [
        samples[0]!.residentMB,
        Math.min(...warm.map(({ residentMB }) => residentMB)),
        Math.max(...warm.map(({ residentMB }) => residentMB)),
        samples.at(-1)!.residentMB,
      ].map(Math.round).join(", "),
      "growth after warm-up, MB an hour": growth.toFixed(1),
      "handles: lowest, highest": `${Math.min(...handles)}, ${Math.max(...handles)}`,
      "processes running at a sample, at the most": Math.max(...warm.map(({ children }) => children)),
    };
    Object.assign(
      figures,
      await traffic.end().catch((error: Error) => {
        throw new Error(`${error.message}; ${JSON.stringify(figures)}`, { cause: error });
      }),
    );
    assert.ok(slowestMs < IN_EFFECT_WITHIN_MS, JSON.stringify(figures));
    // In a few minutes, one garbage collection more or less is a slope.
    if (minutes >= 30) assert.ok(growth < GROWTH_MB_PER_HOUR, JSON.stringify(figures));
    await sluice.end("SIGTERM");
    return figures;
  });
}

/** The slope of the straight line through the points, by least squares. */
function slopePerHour(points: readonly (readonly [number, number])[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = mean(points.map(([at]) => at)), y = mean(points.map(([, value]) => value));
  const over = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0);
  return over / points.reduce((sum, [at]) => sum + (at - x) ** 2, 0) * 3_600_000;
}
