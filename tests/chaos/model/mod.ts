/** Random histories of a small cluster, probed with packets and compared with a reference model. */
import type { ProxyMode } from "../../../core/model/mod.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createFaultyTools } from "../faulty_tools.ts";
import { withLab } from "../lab.ts";
import { type Counts, type Extent, MODES, type Scenario } from "../scenario.ts";
import { createSyncMarker } from "../sync_marker.ts";
import { type History, randomHistories } from "./history.ts";
import { REGRESSIONS } from "./regressions.ts";
import { createHistoryRunner, type HistoryRunner } from "./run_history.ts";

const SHORT = 4, LONG = 500;
/** A difference that disappears within this time does not count. */
const SHRINK_WITHIN_MS = 6_000;
const SHRINK_FOR_MS = { short: 120_000, long: 1_800_000 };

/** Every mode. CHAOS_HISTORIES sets the number of histories. */
export const model: readonly Scenario[] = [...MODES, "ipvs" as const].map((mode) => ({
  name: `model: random histories, ${mode}`,
  inGate: mode === "nftables",
  needs: mode === "ipvs" ? "IPVS" : undefined,
  run: (extent: Extent) => check(mode, extent),
}));

function check(mode: ProxyMode, { long, seed, random }: Extent): Promise<Counts> {
  const count = Number(Deno.env.get("CHAOS_HISTORIES") ?? (long ? LONG : SHORT));
  const histories = [...REGRESSIONS, ...randomHistories(count, seed)];
  return withLab(async (lab) => {
    const tools = await createFaultyTools(`${lab.folder}/tools`, random, mode);
    const marker = createSyncMarker(lab);
    const runner = await createHistoryRunner({ lab, mode, tools, marker });
    let steps = 0;
    for (const history of histories) {
      const found = await runner.run(history);
      steps += history.length;
      if (found.length === 0) continue;
      const { shortest, differs } = await shrink(
        runner,
        history,
        found,
        long ? SHRINK_FOR_MS.long : SHRINK_FOR_MS.short,
      );
      throw new Error(
        `a history differs from the reference model:\n${differs.join("\n")}\n` +
          `add it to tests/chaos/model/regressions.ts:\n${JSON.stringify(shortest, undefined, 2)}`,
      );
    }
    await runner.end();
    return { "histories, steps, differences": `${histories.length}, ${steps}, 0` };
  });
}

/** Removes steps one by one while the rest still fails. */
async function shrink(runner: HistoryRunner, history: History, found: readonly string[], forMs: number) {
  const endMs = systemClock.monotonic() + forMs;
  let shortest = history, differs = found;
  for (let i = shortest.length - 1; i >= 0 && systemClock.monotonic() < endMs; i--) {
    const fewer = shortest.toSpliced(i, 1);
    const stillFound = await runner.run(fewer, SHRINK_WITHIN_MS);
    if (stillFound.length > 0) [shortest, differs] = [fewer, stillFound];
  }
  return { shortest, differs };
}
