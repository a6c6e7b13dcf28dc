/** kill -9 at random moments: the rules go on, the next start brings everything to where a fresh start would. */
import type { ProxyMode } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { rememberState } from "./as_fresh.ts";
import { change, cluster } from "./cluster.ts";
import { type ChaosLab, withLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import { type Extent, type Figures, MODES, type Scenario } from "./scenario.ts";
import { createSentinel } from "./sentinel.ts";
import { startSluice } from "./sluice.ts";

const SERVICES = 1000;
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
  const first = await rememberState(lab, mode);
  const traffic = startTraffic(lab, SERVICES);
  let duringSync = 0, longestMs = 0;
  for (let i = 0; i < count; i++) {
    if (i % 2 === 0) {
      // In the middle of a sync: everything is in effect, then much changes.
      longestMs = Math.max(longestMs, await sentinel.move());
      change(lab, SERVICES, i);
      await sleep(systemClock, Math.random() * 120);
      duringSync++;
    } else {
      // At any moment of a start.
      change(lab, SERVICES, i);
      await sleep(systemClock, Math.random() * LONGEST_LIFE_MS);
    }
    await sluice.end("SIGKILL");
    sluice = await startSluice(lab, { mode });
  }
  // The cluster as it was at the beginning.
  lab.api.apply(...cluster(SERVICES));
  await sentinel.settle();
  const figures = await traffic.end();
  await first.isBack(0);
  await sluice.end("SIGTERM");
  return {
    "kills, in the middle of a sync": `${count}, ${duringSync}`,
    "longest from a start to the last change in effect, ms": Math.round(longestMs),
    ...figures,
  };
}
