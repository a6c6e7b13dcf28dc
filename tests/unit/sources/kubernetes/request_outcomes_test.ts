/** The reported outcomes of requests to the API server. */
import assert from "node:assert/strict";
import type { ApiRequestOutcome } from "../../../../core/objects/source.ts";
import { connectToApi } from "../../../../sources/kubernetes/mod.ts";
import { sendObject } from "../../../../sources/kubernetes/objects.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { startFakeApiServer, statusResponse } from "../../../fakes/api_server.ts";

const LIST = { verb: "list", resource: "services", path: "/api/v1/services?", readDeadlineMs: 5_000 } as const;
const WATCH_PATH = "/api/v1/services?watch=true&resourceVersion=1&timeoutSeconds=60";

/** The outcomes without their durations, which are checked to be valid. */
function plain({ durationMs, host, ...rest }: ApiRequestOutcome) {
  assert.match(host, /^127\.0\.0\.1:\d+$|^localhost:\d+$/);
  if (durationMs !== undefined) assert.ok(durationMs >= 0);
  return { ...rest, isTimed: durationMs !== undefined };
}

Deno.test("each request is reported with status, sizes and duration; a watch when it is answered", async () => {
  const server = startFakeApiServer();
  const outcomes: ApiRequestOutcome[] = [];
  const api = await connectToApi({
    master: server.url,
    kubeconfig: undefined,
    logger: silentLogger,
    onRequest: (outcome) => outcomes.push(outcome),
  });
  const signal = new AbortController().signal;
  try {
    let bytes = 0;
    await api.send(LIST, (chunk) => bytes += chunk.length, signal);
    assert.ok(bytes > 0);
    const object = { kind: "Event", metadata: { name: "wéb" } };
    const length = new TextEncoder().encode(JSON.stringify(object)).length;
    const create = { verb: "create", resource: "events", path: "/api/v1/namespaces/default/events", object } as const;
    await sendObject(api, create, signal);
    server.fault(() => statusResponse(403, "Forbidden", "no"));
    await assert.rejects(api.send(LIST, () => {}, signal));
    server.fault(undefined);
    const watching = new AbortController();
    const onHeaders = () => watching.abort(new Error("enough"));
    const watch = { ...LIST, verb: "watch", path: WATCH_PATH, onHeaders };
    await assert.rejects(api.send(watch, () => {}, watching.signal), /enough/);
    assert.deepEqual(outcomes.map(plain), [
      { method: "GET", status: 200, requestBytes: 0, responseBytes: bytes, isTimed: true },
      { method: "POST", status: 201, requestBytes: length, responseBytes: length, isTimed: true },
      { method: "GET", status: 403, requestBytes: 0, responseBytes: undefined, isTimed: true },
      { method: "GET", status: 200, requestBytes: 0, responseBytes: undefined, isTimed: false },
    ]);
  } finally {
    api.close();
    await server.close();
  }
  outcomes.length = 0;
  await assert.rejects(api.send(LIST, () => {}, signal));
  assert.deepEqual(outcomes.map(plain), [
    { method: "GET", status: undefined, requestBytes: 0, responseBytes: undefined, isTimed: true },
  ]);
  api.close();
});
