/** API servers behind one address fail over to each other; their resourceVersions are unrelated. */
import { startFakeApiServer } from "../fakes/api_server.ts";
import { BOOKMARKS_MS, silenceLimitMs } from "./api_silence.ts";
import { startBookmarks } from "./bookmarks.ts";
import { API_LINK, withLab } from "./lab.ts";
import { startLoadBalancer } from "./load_balancer.ts";
import { dropConnections, stopDropping } from "./lost_connections.ts";
import type { Counts, Extent, Scenario } from "./scenario.ts";
import { fill, serve } from "./serving.ts";

/** In nftables mode only, because planning from the API does not depend on the mode. */
export const apiFailover: readonly Scenario[] = [
  { name: "api: another server takes over, twice", run: failover },
];

const FAR_AHEAD = 1_000_000;
/** The limit after broken connections and a 410. */
const BROKEN_LIMIT_MS = 5_000;

function failover({ long }: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    const everyMs = long ? BOOKMARKS_MS.default : BOOKMARKS_MS.short;
    const { server: hostname } = API_LINK;
    const ahead = startFakeApiServer({ hostname });
    ahead.restore(FAR_AHEAD);
    const behind = startFakeApiServer({ hostname, silentAhead: true });
    const bookmarks = startBookmarks([lab.api, ahead, behind], everyMs);
    const loadBalancer = startLoadBalancer(hostname, lab.api.url);
    try {
      const serving = await serve(lab, { cluster: { server: loadBalancer.url } });

      fill(ahead);
      serving.useServer(ahead);
      ahead.forgetEvents();
      loadBalancer.switchTo(ahead.url);
      loadBalancer.cut();
      serving.change();
      const brokenMs = await serving.inEffect(BROKEN_LIMIT_MS);
      await bookmarks.sent();

      fill(behind);
      serving.useServer(behind);
      loadBalancer.switchTo(behind.url);
      await dropConnections(lab, loadBalancer.port);
      serving.change();
      // First the dead connections time out, then the silent watches of the new server.
      const lostMs = await serving.inEffect(2 * silenceLimitMs(everyMs));
      const counts = await serving.end();
      return {
        "connections closed, versions far ahead: in effect after ms": Math.round(brokenMs),
        "packets lost, versions behind: in effect after ms": Math.round(lostMs),
        "bookmarks every ms": everyMs,
        ...counts,
      };
    } finally {
      bookmarks.stop();
      await stopDropping();
      loadBalancer.close();
      await Promise.all([ahead.close(), behind.close()]);
    }
  });
}
