/** kill -9 at random moments: the rules go on, the next start brings everything to where a fresh start would. */
import assert from "node:assert/strict";
import type { ProxyMode } from "../../core/model.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { cluster, clusterService, clusterSlice, familyOf, isProbed, serviceName, SERVING, slice } from "./cluster.ts";
import { emptyKernel, kernelState } from "./kernel.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Extent, type Figures, MODES, type Scenario } from "./scenario.ts";
import { createSentinel, type Sentinel } from "./sentinel.ts";
import { startSluice } from "./sluice.ts";

const SERVICES = 1000;
const CHANGED_AT_ONCE = 40;
/** A start lasts about as long, a sync of the changes a fraction of it. */
const LONGEST_LIFE_MS = 1500;

/** Both modes. */
export const crash: readonly Scenario[] = MODES.map((mode) => ({
  name: `crash: kill -9 at random moments at ${SERVICES} services, ${mode}`,
  run: ({ long }: Extent) => withLab((lab) => crashes(lab, mode, long ? 200 : 25)),
}));

async function crashes(lab: ChaosLab, mode: ProxyMode, count: number): Promise<Figures> {
  lab.api.apply(...cluster(SERVICES));
  applyEcho(lab);
  const sentinel = createSentinel(lab);
  let sluice = await startSluice(lab, { mode });
  await sentinel.settle();
  const traffic = startTraffic(lab, SERVICES);
  let duringSync = 0, longestMs = 0;
  for (let i = 0; i < count; i++) {
    if (i % 2 === 0) {
      // In the middle of a sync: everything is in effect, then much changes.
      longestMs = Math.max(longestMs, await sentinel.move());
      change(lab, i);
      await sleep(systemClock, Math.random() * 120);
      duringSync++;
    } else {
      // At any moment of a start.
      change(lab, i);
      await sleep(systemClock, Math.random() * LONGEST_LIFE_MS);
    }
    await sluice.end("SIGKILL");
    sluice = await startSluice(lab, { mode });
  }
  restore(lab);
  await sentinel.settle();
  const figures = await traffic.end();
  await assertAsFresh(lab, mode, sentinel, sluice);
  return {
    "kills, in the middle of a sync": `${count}, ${duringSync}`,
    "longest from a start to the last change in effect, ms": Math.round(longestMs),
    ...figures,
  };
}

/** The kernel is as after a start on an empty one; ends that Sluice. */
async function assertAsFresh(
  lab: ChaosLab,
  mode: ProxyMode,
  sentinel: Sentinel,
  sluice: Awaited<ReturnType<typeof startSluice>>,
): Promise<void> {
  const after = await kernelState(lab, mode);
  await sluice.end("SIGTERM");
  await emptyKernel(lab);
  const fresh = await startSluice(lab, { mode });
  await sentinel.settle();
  const wanted = await kernelState(lab, mode);
  await fresh.end("SIGTERM");
  assert.ok(after === wanted, `the kernel differs from a fresh start's:\n${firstDifferences(after, wanted)}`);
}

function firstDifferences(after: string, wanted: string): string {
  const lines = (text: string) => text.split("\n");
  const has = new Set(lines(after)), wants = new Set(lines(wanted));
  const more = lines(after).filter((line) => !wants.has(line)), less = lines(wanted).filter((line) => !has.has(line));
  return [`${more.length} more:`, ...more.slice(0, 10), `${less.length} less:`, ...less.slice(0, 10)].join("\n");
}

/** Moves endpoints, takes services away and brings them back; every probed service stays served. */
function change(lab: ChaosLab, round: number): void {
  for (let n = 0; n < CHANGED_AT_ONCE; n++) {
    const index = (round * 37 + n * 23) % SERVICES;
    const kept = round % 3 === 2 ? SERVING : [SERVING[round % 2]!];
    if (isProbed(index)) lab.api.apply(slice(serviceName(index), familyOf(index), kept));
    else if (n % 4 === 0 && round % 2 === 0) lab.api.remove(clusterService(index));
    else lab.api.apply(clusterService(index), clusterSlice(index, round + 1));
  }
}

/** The cluster as it was at the beginning. */
function restore(lab: ChaosLab): void {
  lab.api.apply(...cluster(SERVICES));
}
