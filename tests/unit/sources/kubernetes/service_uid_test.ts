import assert from "node:assert/strict";
import { loadCredentials } from "../../../../sources/kubernetes/credentials.ts";
import { createApiClient } from "../../../../sources/kubernetes/http.ts";
import { readServiceUid } from "../../../../sources/kubernetes/objects.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { startFakeApiServer } from "../../../fakes/api_server.ts";

Deno.test("the UID of one Service is read by a list, for which a proxy has the permission", async () => {
  const server = startFakeApiServer();
  const credentials = await loadCredentials({ master: server.url }, silentLogger);
  const api = createApiClient({ credentials, clock: systemClock, logger: silentLogger });
  const { signal } = new AbortController();
  try {
    server.apply(
      { kind: "Service", metadata: { namespace: "shop", name: "web", uid: "1" } },
      { kind: "Service", metadata: { namespace: "auth", name: "web", uid: "2" } },
    );
    assert.equal(await readServiceUid(api, { namespace: "auth", name: "web" }, signal), "2");
    assert.equal(await readServiceUid(api, { namespace: "auth", name: "gone" }, signal), undefined);
    assert.deepEqual(
      server.requests.map(({ verb, path }) => `${verb} ${path}`),
      Array(2).fill("list /api/v1/services"),
    );
  } finally {
    api.close();
    await server.close();
  }
});
