/** Churn for an hour: memory, open files and processes do not grow, and every change comes into effect. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { cluster, clusterSlice, isProbed } from "./cluster.ts";
import { withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type ProcessUsage, processUsage, syncs } from "./process.ts";
import { type Counts, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { TIMEOUT_FACTOR } from "./wait.ts";

const SERVICES = 1000;
const CHANGES_PER_SECOND = 50;
const TURN_MS = 100;
const SAMPLE_MS = 5000;
/** With minSyncPeriod 1s: the rest of a running sync, the period, and the next sync. */
const IN_EFFECT_WITHIN_MS = 5000;
/** Growth over half an hour that is still noise of the garbage collector. */
const GROWTH_MB_PER_HOUR = 10;

/** Both modes, half of CHAOS_MINUTES each; an hour by default. */
export const longRun: readonly Scenario[] = MODES.map((mode) => ({
  name: `long run: ${CHANGES_PER_SECOND} changes a second at ${SERVICES} services, ${mode}`,
  onlyLong: true,
  needs: "executable",
  run: () => churn(mode, Number(Deno.env.get("CHAOS_MINUTES") ?? 60) / 2),
}));

function churn(mode: ProxyMode, minutes: number): Promise<Counts> {
  return withLab(async (lab) => {
    lab.api.apply(...cluster(SERVICES));
    applyEcho(lab);
    const marker = createSyncMarker(lab);
    const sluice = await startSluice(lab, { mode, minSyncPeriod: "1s" });
    await marker.settle();
    const traffic = startTraffic(lab, SERVICES);
    const changing = Array.from({ length: SERVICES }, (_, index) => index).filter((index) => !isProbed(index));
    const samples: (ProcessUsage & { readonly atMs: number })[] = [];
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
        samples.push({ atMs: elapsedMs, ...processUsage(sluice.pid) });
        lab.api.forgetEvents();
      }
      moving ??= marker.move().then((tookMs) => {
        slowestMs = Math.max(slowestMs, tookMs);
        moves++;
        moving = undefined;
      });
      await sleep(systemClock, TURN_MS);
    }
    await moving;
    const warm = samples.filter(({ atMs }) => atMs > lengthMs / 4);
    const growth = slopePerHour(warm.map(({ atMs, residentMB }) => [atMs, residentMB]));
    const openFiles = warm.map((sample) => sample.openFiles);
    const counts: Record<string, string | number> = {
      "minutes, changes, syncs of IPv4": `${minutes}, ${changes}, ${await syncs("IPv4")}`,
      "changes timed, slowest in effect after ms": `${moves}, ${Math.round(slowestMs)}`,
      "resident MB: first, lowest and highest after warm-up, last": [
        samples[0]!.residentMB,
        Math.min(...warm.map(({ residentMB }) => residentMB)),
        Math.max(...warm.map(({ residentMB }) => residentMB)),
        samples.at(-1)!.residentMB,
      ].map(Math.round).join(", "),
      "growth after warm-up, MB an hour": growth.toFixed(1),
      "open files: lowest, highest": `${Math.min(...openFiles)}, ${Math.max(...openFiles)}`,
      "child processes in a sample, highest": Math.max(...warm.map(({ children }) => children)),
    };
    Object.assign(
      counts,
      await traffic.end().catch((error: Error) => {
        throw new Error(`${error.message}; ${JSON.stringify(counts)}`, { cause: error });
      }),
    );
    assert.ok(slowestMs < IN_EFFECT_WITHIN_MS * TIMEOUT_FACTOR, JSON.stringify(counts));
    // Over a few minutes a single garbage collection dominates the slope.
    if (minutes >= 30) assert.ok(growth < GROWTH_MB_PER_HOUR, JSON.stringify(counts));
    await sluice.end("SIGTERM");
    return counts;
  });
}

/** The slope of the least-squares line through (milliseconds, value) points, per hour. */
function slopePerHour(points: readonly (readonly [number, number])[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = mean(points.map(([at]) => at)), y = mean(points.map(([, value]) => value));
  const over = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0);
  return over / points.reduce((sum, [at]) => sum + (at - x) ** 2, 0) * 3_600_000;
}
