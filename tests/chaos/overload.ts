/** More changes than Sluice can program: once they stop, the last state is programmed soon. */
import assert from "node:assert/strict";
import { sleep, systemClock } from "../../platform/clock.ts";
import { cluster, clusterSlice, isProbed } from "./cluster.ts";
import { kernelState, targetsInKernel } from "./kernel.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { processUsage, syncs } from "./process.ts";
import { type Counts, type Extent, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { TIMEOUT_FACTOR } from "./wait.ts";

const SERVICES = 1000;
const PER_SECOND = 2000;
const TURN_MS = 10;
/** The last state may wait for the running sync, minSyncPeriod, and its own sync, and longer on a busy machine. */
const LAG_LIMIT_MS = 15_000;
/**
 * The CPU of the process from the last event until its state is in effect, in milliseconds: for events not read yet, the running sync
 * and the next one. On a busy machine, these take longer, but hardly more CPU.
 */
const LAG_CPU_LIMIT_MS = 10_000;
const GROWTH_LIMIT_MB = 60;

/** Both modes. */
export const overload: readonly Scenario[] = MODES.map((mode) => ({
  name: `overload: ${PER_SECOND} slice events a second at ${SERVICES} services, ${mode}`,
  needs: "executable",
  inGate: mode === "nftables",
  run: ({ long }: Extent) =>
    withLab(async (lab) => {
      lab.api.apply(...cluster(SERVICES));
      const marker = createSyncMarker(lab);
      const sluice = await startSluice(lab, { mode, minSyncPeriod: "1s" });
      try {
        await marker.settle();
        const before = { syncs: await syncs("IPv4"), residentMB: processUsage(sluice.pid).residentMB };
        const { last, sent, seconds, resident } = await churn(lab, sluice.pid, long ? 60 : 10);
        const endedCpuMs = processUsage(sluice.pid).cpuMs;
        const lagMs = await marker.move(), lagCpuMs = processUsage(sluice.pid).cpuMs - endedCpuMs;
        const after = await syncs("IPv4");
        await marker.settle();
        assert.ok(lagMs < LAG_LIMIT_MS * TIMEOUT_FACTOR, `the last state took ${lagMs} ms to come into effect`);
        assert.ok(lagCpuMs < LAG_CPU_LIMIT_MS, `the last state took ${lagCpuMs} ms of CPU to come into effect`);
        assertLastState(await kernelState(lab, mode), last);
        const highestMB = Math.max(...resident);
        const counts: Counts = {
          "events sent": `${sent} in ${seconds.toFixed(1)} s`,
          "syncs of IPv4 for them": after - before.syncs,
          "last state in effect after the last event, ms; its CPU": `${Math.round(lagMs)}; ${Math.round(lagCpuMs)}`,
          "resident MB before, highest, at the end": [before.residentMB, highestMB, resident.at(-1)!].map(Math.round)
            .join(", "),
        };
        assert.ok(highestMB < before.residentMB + GROWTH_LIMIT_MB, `memory grew: ${JSON.stringify(counts)}`);
        return counts;
      } finally {
        await sluice.end("SIGTERM");
      }
    }),
}));

/** Changes slices in turn at the given rate, and resolves with the last round of every service. */
async function churn(lab: ChaosLab, pid: number, seconds: number) {
  const last = new Map<number, number>();
  const resident: number[] = [];
  const startedMs = systemClock.monotonic();
  const total = seconds * PER_SECOND;
  let sent = 0, sampledMs = startedMs;
  while (sent < total) {
    const nowMs = systemClock.monotonic();
    const due = Math.min(total, Math.floor((nowMs - startedMs) * PER_SECOND / 1000));
    for (; sent < due; sent++) {
      const index = sent % SERVICES, round = 1 + Math.floor(sent / SERVICES);
      lab.api.apply(clusterSlice(index, round));
      last.set(index, round);
    }
    if (nowMs - sampledMs >= 500) {
      sampledMs = nowMs;
      resident.push(processUsage(pid).residentMB);
    }
    await sleep(systemClock, TURN_MS);
  }
  return { last, sent, seconds: (systemClock.monotonic() - startedMs) / 1000, resident };
}

/** Asserts that the kernel holds every endpoint of the last state, and none of an earlier one. */
function assertLastState(state: string, last: ReadonlyMap<number, number>): void {
  const wanted = new Set<string>();
  for (const [index, round] of last) {
    if (isProbed(index)) continue;
    for (const { addresses } of clusterSlice(index, round).endpoints as { addresses: string[] }[]) {
      wanted.add(addresses[0]!);
    }
  }
  const held = targetsInKernel(state);
  const missing = [...wanted].filter((address) => !held.has(address));
  const stale = [...held].filter((address) =>
    /^(10\.1[5-9]\d\.|fd00:1[5-9]\d::)/.test(address) && !wanted.has(address)
  );
  assert.equal(missing.length, 0, `${missing.length} endpoints are missing, e.g. ${missing[0]}`);
  assert.equal(stale.length, 0, `${stale.length} endpoints are stale, e.g. ${stale[0]}`);
}
