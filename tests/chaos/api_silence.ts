/** Watches that go silent without an error. */
import assert from "node:assert/strict";
import { startBookmarks } from "./bookmarks.ts";
import { withLab } from "./lab.ts";
import { dropConnections, stopDropping } from "./lost_connections.ts";
import type { Counts, Extent, Scenario } from "./scenario.ts";
import { serve } from "./serving.ts";

/** Intervals of bookmarks: that of kube-apiserver, and one that gives Sluice's shortest watch timeout. */
export const BOOKMARKS_MS = { default: 60_000, short: 2_000 };

/** The watch timeout with bookmarks at this interval, plus the time for a new list and a sync. */
export function silenceLimitMs(bookmarksMs: number): number {
  return Math.max(5_000, 2.5 * bookmarksMs) + 5_000;
}

/** In nftables mode only, because planning from the API does not depend on the mode. */
export const apiSilence: readonly Scenario[] = [
  { name: "api: its connections lose every packet", inGate: true, run: (extent) => silence("lost", extent) },
  {
    name: "api: it keeps its connections open but sends nothing",
    onlyLong: true,
    run: (extent) => silence("mute", extent),
  },
];

function silence(how: "lost" | "mute", { long }: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    const everyMs = long ? BOOKMARKS_MS.default : BOOKMARKS_MS.short;
    const bookmarks = startBookmarks([lab.api], everyMs);
    try {
      const serving = await serve(lab);
      await bookmarks.sent();
      let connections = 0;
      if (how === "lost") connections = await dropConnections(lab, Number(new URL(lab.api.url).port));
      else lab.api.deafen();
      serving.change();
      const tookMs = await serving.inEffect(silenceLimitMs(everyMs));
      assert.ok(serving.sluice.log().includes("went silent"), "the log does not mention the silent watch");
      const counts = await serving.end();
      return {
        "bookmarks every ms, changes in effect after ms": `${everyMs}, ${Math.round(tookMs)}`,
        ...(how === "lost" ? { "connections lost": connections } : {}),
        ...counts,
      };
    } finally {
      bookmarks.stop();
      await stopDropping();
    }
  });
}
