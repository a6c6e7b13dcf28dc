/** Two API servers take over from one another behind one address; their resourceVersions have nothing to do with each other. */
import { sleep, systemClock } from "../../platform/clock.ts";
import { startFakeApiServer } from "../fakes/api_server.ts";
import { BOOKMARKS_MS, noticedMs } from "./api_silence.ts";
import { startBookmarks } from "./bookmarks.ts";
import { startFront } from "./front.ts";
import { API_LINK, withLab } from "./lab.ts";
import { endLosses, loseConnections } from "./lost_connections.ts";
import type { Extent, Figures, Scenario } from "./scenario.ts";
import { fill, serve } from "./serving.ts";

/** In nftables mode: what the API says is planned in the same way in every mode. */
export const apiFailover: readonly Scenario[] = [
  { name: "api: another server takes over, and one more", run: failover },
];

const FAR_AHEAD = 1_000_000;
/** After connections that break and a 410. */
const AT_ONCE_MS = 5_000;

function failover({ long }: Extent): Promise<Figures> {
  return withLab(async (lab) => {
    const everyMs = long ? BOOKMARKS_MS.usual : BOOKMARKS_MS.often;
    const { server: hostname } = API_LINK;
    const ahead = startFakeApiServer({ hostname });
    ahead.restore(FAR_AHEAD);
    const behind = startFakeApiServer({ hostname, silentAhead: true });
    const end = startBookmarks([lab.api, ahead, behind], everyMs);
    const front = startFront(hostname, lab.api.url);
    try {
      const serving = await serve(lab, { cluster: { server: front.url } });

      fill(ahead);
      serving.isMovedTo(ahead);
      ahead.forgetEvents();
      front.leadTo(ahead.url);
      front.cut();
      serving.change();
      const brokenMs = await serving.inEffect(AT_ONCE_MS);
      await sleep(systemClock, 1.5 * everyMs);

      fill(behind);
      serving.isMovedTo(behind);
      front.leadTo(behind.url);
      await loseConnections(lab, front.port);
      serving.change();
      // That the connections are dead, and then that on those to the new server nothing comes.
      const lostMs = await serving.inEffect(2 * noticedMs(everyMs));
      const figures = await serving.end();
      return {
        "connections break, versions far ahead: in effect after ms": Math.round(brokenMs),
        "packets are lost, versions yet to come: in effect after ms": Math.round(lostMs),
        "bookmarks every ms": everyMs,
        ...figures,
      };
    } finally {
      end();
      await endLosses();
      front.close();
      await Promise.all([ahead.close(), behind.close()]);
    }
  });
}
