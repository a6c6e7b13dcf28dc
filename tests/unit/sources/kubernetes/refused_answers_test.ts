/** Answers of an API server, or of what stands in its place, that are not followed or not read to their end. */
import assert from "node:assert/strict";
import { ApiError } from "../../../../core/objects/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createApiClient } from "../../../../sources/kubernetes/http.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** The error of a request that is answered so, and the paths that were requested. */
async function errorOf(answer: (path: string, nowMs: number) => Response) {
  const clock = createFakeClock(), paths: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { pathname } = new URL(request.url);
    paths.push(pathname);
    return answer(pathname, clock.now());
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  const none = {
    caCerts: undefined,
    serverName: undefined,
    certificate: undefined,
    key: undefined,
    proxyUrl: undefined,
  };
  const credentials = {
    server: url,
    current: () => Promise.resolve({ ...none, headers: [["authorization", "Bearer secret"]] as [string, string][] }),
    failed() {},
  };
  const api = createApiClient({ credentials, clock, logger: silentLogger });
  const request = { verb: "list", resource: "services", path: "/api", readDeadlineMs: 1_000 };
  const error = await api.send(request, () => {}, new AbortController().signal).catch((error) => error);
  api.close();
  await server.shutdown();
  assert(error instanceof ApiError, String(error));
  return { error, paths };
}

Deno.test("a redirect is an error, and is not followed: another server would get the token", async () => {
  const { error, paths } = await errorOf((path) =>
    path === "/api" ? new Response(null, { status: 302, headers: { location: "/login" } }) : Response.json({})
  );
  assert.equal(error.kind, "unavailable");
  assert.match(error.message, /it redirects/);
  assert.deepEqual(paths, ["/api"]);
});

Deno.test("the time of a retry is read in seconds and as a date", async () => {
  const after = async (header: (nowMs: number) => string) =>
    (await errorOf((_, nowMs) => new Response("busy", { status: 503, headers: { "retry-after": header(nowMs) } })))
      .error.retryAfterMs;
  const date = (ms: number) => new Date(ms).toUTCString();
  assert.equal(await after(() => "7"), 7_000);
  assert.equal(await after((nowMs) => date(nowMs + 9_000)), 9_000);
  assert.equal(await after((nowMs) => date(nowMs - 9_000)), 0);
  assert.equal(await after(() => "soon"), undefined);
});

Deno.test("the text of an error is not read without an end", async () => {
  const piece = new TextEncoder().encode("x".repeat(16 * 1024));
  const { error } = await errorOf(() => {
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(piece);
      },
    });
    return new Response(body, { status: 500 });
  });
  assert.equal(error.kind, "unavailable");
  assert.ok(error.message.length < 1_000);
});
