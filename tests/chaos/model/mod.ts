/** Random histories of a small cluster, probed with packets, against a model that says who may reach what. */
import type { ProxyMode } from "../../../core/model/mod.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createFaultyTools } from "../faulty_tools.ts";
import { withLab } from "../lab.ts";
import { type Extent, type Figures, MODES, type Scenario } from "../scenario.ts";
import { createSentinel } from "../sentinel.ts";
import { type History, randomHistories } from "./history.ts";
import { createLivingCluster, type LivingCluster } from "./live.ts";
import { REGRESSIONS } from "./regressions.ts";

const DEFAULT_SEED = 1;
const SHORT = 7, LONG = 500;
/** What differs is known to last; a difference that goes in that time is none. */
const SHRINK_WITHIN_MS = 6_000;
const SHRINK_FOR_MS = { short: 120_000, long: 1_800_000 };

/** Every mode; the seed is CHAOS_SEED, or always the same, and how many histories there are CHAOS_HISTORIES. */
export const model: readonly Scenario[] = [...MODES, "ipvs" as const].map((mode) => ({
  name: `model: random histories, ${mode}`,
  needsIPVS: mode === "ipvs",
  run: (extent: Extent) => check(mode, extent),
}));

function check(mode: ProxyMode, { long }: Extent): Promise<Figures> {
  const seed = Number(Deno.env.get("CHAOS_SEED") ?? DEFAULT_SEED);
  const count = Number(Deno.env.get("CHAOS_HISTORIES") ?? (long ? LONG : SHORT));
  const histories = [...REGRESSIONS, ...randomHistories(count, seed)];
  return withLab(async (lab) => {
    const tools = await createFaultyTools(`${lab.folder}/tools`, mode);
    const sentinel = createSentinel(lab);
    const cluster = await createLivingCluster({ lab, mode, tools, sentinel });
    let steps = 0;
    for (const history of histories) {
      const found = await cluster.live(history);
      steps += history.length;
      if (found.length === 0) continue;
      const { least, differs } = await shrink(cluster, history, found, long ? SHRINK_FOR_MS.long : SHRINK_FOR_MS.short);
      throw new Error(
        `seed ${seed}: a history ends otherwise than the reference model says:\n${differs.join("\n")}\n` +
          `to keep in tests/chaos/model/regressions.ts:\n${JSON.stringify(least, undefined, 2)}`,
      );
    }
    await cluster.end();
    return { "seed, histories, steps, differences": `${seed}, ${histories.length}, ${steps}, 0` };
  });
}

/** Drops steps one by one as long as what is left still differs. */
async function shrink(cluster: LivingCluster, history: History, found: readonly string[], forMs: number) {
  const endMs = systemClock.monotonic() + forMs;
  let least = history, differs = found;
  for (let i = least.length - 1; i >= 0 && systemClock.monotonic() < endMs; i--) {
    const fewer = least.toSpliced(i, 1);
    const stillFound = await cluster.live(fewer, SHRINK_WITHIN_MS);
    if (stillFound.length > 0) [least, differs] = [fewer, stillFound];
  }
  return { least, differs };
}
