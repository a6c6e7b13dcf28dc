/** Watches on which nothing comes any more, and nobody says so. */
import assert from "node:assert/strict";
import { sleep, systemClock } from "../../platform/clock.ts";
import { startBookmarks } from "./bookmarks.ts";
import { withLab } from "./lab.ts";
import { endLosses, loseConnections } from "./lost_connections.ts";
import type { Extent, Figures, Scenario } from "./scenario.ts";
import { serve } from "./serving.ts";

/** How often the server sends bookmarks: as kube-apiserver, and as often as makes Sluice as impatient as it gets. */
export const BOOKMARKS_MS = { usual: 60_000, often: 2_000 };

/** How long a watch may be silent at the most with bookmarks so often, and what the rest takes: asking again, a sync. */
export function noticedMs(bookmarksMs: number): number {
  return Math.max(5_000, 2.5 * bookmarksMs) + 5_000;
}

/** In nftables mode: what the API says is planned in the same way in every mode. */
export const apiSilence: readonly Scenario[] = [
  { name: "api: the packets of its connections are lost", run: (extent) => silence("lost", extent) },
  {
    name: "api: it keeps its connections and sends nothing more",
    onlyLong: true,
    run: (extent) => silence("mute", extent),
  },
];

function silence(how: "lost" | "mute", { long }: Extent): Promise<Figures> {
  return withLab(async (lab) => {
    const everyMs = long ? BOOKMARKS_MS.usual : BOOKMARKS_MS.often;
    const end = startBookmarks([lab.api], everyMs);
    try {
      const serving = await serve(lab);
      await sleep(systemClock, 1.5 * everyMs);
      let connections = 0;
      if (how === "lost") connections = await loseConnections(lab, Number(new URL(lab.api.url).port));
      else lab.api.deafen();
      serving.change();
      const tookMs = await serving.inEffect(noticedMs(everyMs));
      assert.ok(serving.sluice.log().includes("went silent"), "nobody noticed the silence");
      const figures = await serving.end();
      return {
        "bookmarks every ms, changes in effect after ms": `${everyMs}, ${Math.round(tookMs)}`,
        ...(how === "lost" ? { "connections lost": connections } : {}),
        ...figures,
      };
    } finally {
      end();
      await endLosses();
    }
  });
}
