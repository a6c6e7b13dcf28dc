/** kill -9 at random moments: the rules stay, and the next start ends in the same state as a fresh start. */
import type { ProxyMode } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { change, cluster } from "./cluster.ts";
import { takeSnapshot } from "./kernel.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Counts, type Extent, MODES, type Scenario } from "./scenario.ts";
import { startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";

const SERVICES = 1000;
/** About the time that a start takes. */
const LONGEST_LIFE_MS = 1500;

/** Both modes. */
export const crash: readonly Scenario[] = MODES.map((mode) => ({
  name: `crash: kill -9 at random moments at ${SERVICES} services, ${mode}`,
  inGate: mode === "iptables",
  run: ({ long, random }: Extent) => withLab((lab) => crashes(lab, mode, long ? 200 : 12, random)),
}));

async function crashes(lab: ChaosLab, mode: ProxyMode, count: number, random: () => number): Promise<Counts> {
  lab.api.apply(...cluster(SERVICES));
  applyEcho(lab);
  const marker = createSyncMarker(lab);
  let sluice = await startSluice(lab, { mode });
  await marker.settle();
  const first = await takeSnapshot(lab, mode);
  const traffic = startTraffic(lab, SERVICES);
  let duringSync = 0, longestMs = 0;
  for (let i = 0; i < count; i++) {
    if (i % 2 === 0) {
      // Kill during a sync: wait until everything is in effect, then change a lot.
      longestMs = Math.max(longestMs, await marker.move());
      change(lab, SERVICES, i);
      await sleep(systemClock, random() * 120);
      duringSync++;
    } else {
      // Kill during a start.
      change(lab, SERVICES, i);
      await sleep(systemClock, random() * LONGEST_LIFE_MS);
    }
    await sluice.end("SIGKILL");
    sluice = await startSluice(lab, { mode });
  }
  // Restore the initial cluster.
  lab.api.apply(...cluster(SERVICES));
  await marker.settle();
  const counts = await traffic.end();
  await first.waitUntilRestored(0);
  await sluice.end("SIGTERM");
  return {
    "kills, of them during a sync": `${count}, ${duringSync}`,
    "slowest change in effect after a start, ms": Math.round(longestMs),
    ...counts,
  };
}
