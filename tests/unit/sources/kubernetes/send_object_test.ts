import assert from "node:assert/strict";
import { connectToApi } from "../../../../sources/kubernetes/mod.ts";
import { sendObject } from "../../../../sources/kubernetes/objects.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { startFakeApiServer, statusResponse } from "../../../fakes/api_server.ts";

const { signal } = new AbortController();

Deno.test("objects are created by POST and patched by PATCH, and the server's version is returned", async () => {
  const server = startFakeApiServer();
  const api = await connectToApi({ master: server.url, kubeconfig: undefined, logger: silentLogger });
  try {
    const path = "/api/v1/namespaces/default/events";
    const object = { kind: "Event", metadata: { name: "wéb" } };
    assert.deepEqual(await sendObject(api, { verb: "create", resource: "events", path, object }, signal), object);
    const patch = { verb: "patch", resource: "events", path: `${path}/a`, object: { count: 2 } } as const;
    assert.deepEqual(await sendObject(api, patch, signal), { count: 2 });
    await sendObject(api, { ...patch, patch: "strategic" }, signal);
    assert.deepEqual(
      server.requests.map(({ verb, path, headers }) => [verb, path, headers.get("content-type")]),
      [["create", path, "application/json"], ["patch", `${path}/a`, "application/merge-patch+json"], [
        "patch",
        `${path}/a`,
        "application/strategic-merge-patch+json",
      ]],
    );
    server.fault(() => statusResponse(403, "Forbidden", "no"));
    await assert.rejects(sendObject(api, patch, signal), /needs the verb "patch" on "events", .*system:node-proxier$/);
    server.fault(() => new Response('{"kind"', { status: 201 }));
    await assert.rejects(sendObject(api, patch, signal), /instead of the API's JSON/);
  } finally {
    api.close();
    await server.close();
  }
});
