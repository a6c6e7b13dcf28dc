import assert from "node:assert/strict";
import { createApiClient } from "../../../../sources/kubernetes/http.ts";
import { loadCredentials } from "../../../../sources/kubernetes/credentials.ts";
import { listNodeNames, otherNodesText } from "../../../../sources/kubernetes/objects.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { startFakeApiServer, statusResponse } from "../../../fakes/api_server.ts";

Deno.test("one page of Node metadata is read, with the number of remaining Nodes", async () => {
  const server = startFakeApiServer();
  const credentials = await loadCredentials({ master: server.url }, silentLogger);
  const api = createApiClient({ credentials, clock: systemClock, logger: silentLogger });
  const signal = new AbortController().signal;
  const items = [{ metadata: { name: "a" } }, { metadata: { name: "b" } }];
  try {
    server.fault(() => Response.json({ metadata: { remainingItemCount: 7, continue: "x" }, items }));
    assert.deepEqual(await listNodeNames(api, signal), { names: ["a", "b"], more: 7 });
    assert.equal(server.requests[0]!.query.limit, "500");
    assert.match(server.requests[0]!.headers.get("accept")!, /as=PartialObjectMetadataList.*,application\/json$/);
    server.fault(() => Response.json({ kind: "PartialObjectMetadataList", metadata: {}, items: null }));
    assert.deepEqual(await listNodeNames(api, signal), { names: [], more: 0 });
    server.fault(() => statusResponse(403, "Forbidden", "not for you"));
    await assert.rejects(listNodeNames(api, signal), /403 Forbidden: not for you/);
  } finally {
    api.close();
    await server.close();
  }
});

Deno.test("at most ten existing Nodes are listed, and a similar name is suggested", () => {
  const many = Array.from({ length: 12 }, (_, i) => `worker-${i}`);
  assert.equal(otherNodesText("n1", { names: [], more: 0 }), "the cluster has no Nodes");
  assert.equal(otherNodesText("n1", { names: ["x", "y"], more: 0 }), "the cluster has x, y");
  assert.match(otherNodesText("Worker-11", { names: many, more: 5 }), /worker-9 and 7 more; did you mean worker-11\?$/);
});
