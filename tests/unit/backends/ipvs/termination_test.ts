/** When the connections of terminating real servers are counted. */
import assert from "node:assert/strict";
import { createTermination } from "../../../../backends/ipvs/server_sync.ts";
import { createVirtualServers } from "../../../../backends/ipvs/virtual_servers.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createIpvsHost } from "./host.ts";

const SERVER = "-t 10.96.0.1:80", REAL = "10.244.1.1:80";

/** Termination of one real server whose connection stays open; a count takes this time. */
function terminating(countMs: number) {
  const clock = createFakeClock();
  const servers = createVirtualServers("IPv4", createIpvsHost().runner);
  const connections = () => {
    clock.advance(countMs);
    return Promise.resolve(new Map([[SERVER, new Map([[REAL, 1]])]]));
  };
  const termination = createTermination({ ...servers, connections }, clock);
  termination.note(SERVER, new Set([REAL]));
  return { termination, clock };
}

Deno.test("connections are counted after 5 s, then once a minute, and for at most 2% of the time", async () => {
  for (const [countMs, nextMs] of [[10, 60_000], [2_000, 100_000]] as const) {
    const { termination, clock } = terminating(countMs);
    assert.equal(termination.againAfterMs(), 5_000);
    clock.advance(5_000);
    assert.deepEqual(await termination.takeEnded(), []);
    assert.equal(termination.againAfterMs(), nextMs);
  }
});

Deno.test("real servers of a virtual server that the kernel no longer has are not waited for", () => {
  const { termination } = terminating(0);
  termination.reset(new Map());
  assert.equal(termination.of(SERVER), undefined);
  assert.equal(termination.againAfterMs(), undefined);
});
