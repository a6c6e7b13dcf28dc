import assert from "node:assert/strict";
import { loadCredentials } from "../../../../sources/kubernetes/credentials.ts";
import { createApiClient } from "../../../../sources/kubernetes/http.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { startFakeApiServer } from "../../../fakes/api_server.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { startSilentLine } from "../../../fakes/silent_line.ts";
import { inTime, until } from "../../../fakes/wait.ts";

Deno.test("after a connection died unnoticed, the idle ones are not reused", async () => {
  const server = startFakeApiServer();
  const line = startSilentLine(Number(new URL(server.url).port));
  const clock = createFakeClock();
  const credentials = await loadCredentials({ master: `http://127.0.0.1:${line.port}` }, silentLogger);
  const api = createApiClient({ credentials, clock, logger: silentLogger, responseDeadlineMs: 30_000 });
  const list = () => {
    const request = { verb: "list", resource: "services", path: "/api/v1/services", readDeadlineMs: 30_000 };
    return api.send(request, () => {}, new AbortController().signal);
  };
  try {
    await inTime("three lists", Promise.all([list(), list(), list()]));
    const { opened } = line.counts();
    assert.ok(opened >= 2, "the connections were used one after the other");
    line.silence();
    const lost = assert.rejects(list(), /was not answered within 30 s/);
    await until(() => clock.pending().length > 0);
    clock.advance(30_000);
    await inTime("the end of the lost list", lost);
    await inTime("the list over a new connection", list());
    assert.equal(line.counts().opened, opened + 1);
  } finally {
    api.close();
    line.close();
    await server.close();
  }
});
