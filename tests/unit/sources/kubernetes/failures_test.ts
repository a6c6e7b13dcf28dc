import assert from "node:assert/strict";
import { type FakeApiServer, statusResponse } from "../../../fakes/api_server.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service, withSource } from "./source_under_test.ts";

/** Answers the first `times` lists of Services with `answer`. */
function failLists(server: FakeApiServer, times: number, answer: () => Response | Promise<Response>): void {
  let left = times;
  server.fault(({ verb, path }) => verb === "list" && path.endsWith("/services") && left-- > 0 ? answer() : undefined);
}

Deno.test("503: the list is repeated until it succeeds", async () => {
  await withSource((server) => {
    server.apply(service("web"));
    failLists(server, 5, () => statusResponse(503, "ServiceUnavailable", "not now"));
  }, async ({ server, receives, logged }) => {
    await receives("synced Service");
    assert.equal(server.requests.filter(({ path }) => path.endsWith("/services")).length, 6);
    assert.match(logged[0]!, /WARN .*list services at http:.* failed with 503 ServiceUnavailable: not now/);
  });
});

Deno.test("429: the next try comes no sooner than Retry-After allows", async () => {
  const clock = createFakeClock();
  await withSource((server) => {
    failLists(server, 1, () => statusResponse(429, "TooManyRequests", "slow down", { "retry-after": "7" }));
  }, async ({ logs, receives, server }) => {
    await logs("slow down");
    const tries = () =>
      server.requests.filter(({ path, verb }) => path.endsWith("/services") && verb === "list").length;
    await clock.advanceSettled(6_999);
    assert.equal(tries(), 1);
    clock.advance(1);
    await receives("synced Service");
    assert.equal(tries(), 2);
  }, { clock });
});

Deno.test("403: the warning names verb, resource and role, and the list is repeated", async () => {
  await withSource((server) => {
    failLists(server, 1, () => statusResponse(403, "Forbidden", "User cannot list"));
  }, async ({ receives, logged }) => {
    await receives("synced Service");
    assert.match(logged[0]!, /\\"list\\" on \\"services\\".*system:node-proxier/);
  });
});

Deno.test("404: the warning says that the server may not be an API server", async () => {
  await withSource((server) => {
    failLists(server, 1, () => new Response("404 page not found", { status: 404 }));
  }, async ({ receives, logged }) => {
    await receives("synced Service");
    assert.match(logged[0]!, /404: 404 page not found; http:\S+ may not be a Kubernetes API server/);
  });
});

Deno.test("HTML instead of JSON is reported as such, with a status of success or failure", async () => {
  for (const status of [200, 502]) {
    await withSource((server) => {
      const headers = { "content-type": "text/html" };
      failLists(server, 1, () => new Response("<!doctype html><title>Login</title>", { status, headers }));
    }, async ({ receives, logged }) => {
      await receives("synced Service");
      assert.match(logged[0]!, /HTML/);
    });
  }
});

Deno.test("a list that is cut off within an object applies no partial object and is repeated", async () => {
  await withSource((server) => {
    server.apply(service("web"));
    const body = '{"kind":"ServiceList","metadata":{"resourceVersion":"2"},"items":[{"metadata":{"name":"ha';
    failLists(server, 1, () => new Response(body));
  }, async ({ receives, received, logged }) => {
    await receives("synced Service");
    assert.deepEqual(received.filter((line) => line.startsWith("set")), ["set Service default/web 2"]);
    assert.match(logged[0]!, /broken JSON \(the response breaks off after 89 bytes\)/);
  });
});

Deno.test("a watch line that is not JSON causes a relist", async () => {
  await withSource((server) => server.apply(service("web")), async ({ server, receives, logs }) => {
    await receives("synced Service");
    await server.watches(3);
    server.apply(service("later"));
    server.send("Service", '{"type":"ADDED","object":{"ki\n');
    await logs("broken JSON");
    await server.watches(3);
    server.apply(service("last"));
    await receives("set Service default/last 4");
    assert.equal(server.requests.filter(({ verb, path }) => verb === "list" && path.endsWith("/services")).length, 2);
  });
});

Deno.test("a Status instead of a list is handled as the failure that it describes", async () => {
  await withSource((server) => {
    failLists(server, 1, () => Response.json({ kind: "Status", code: 500, reason: "InternalError", message: "etcd" }));
  }, async ({ receives, logged }) => {
    await receives("synced Service");
    assert.match(logged[0]!, /failed with 500 InternalError: etcd/);
  });
});

Deno.test("a silent watch is renewed after the read deadline, and no event is lost", async () => {
  const clock = createFakeClock();
  await withSource((server) => server.apply(service("web")), async ({ server, receives, logged, until }) => {
    await receives("synced Service");
    await server.watches(3);
    server.apply(
      service("seen"),
      { kind: "EndpointSlice", metadata: { namespace: "default", name: "seen" } },
      { kind: "Node", metadata: { name: "n1" } },
    );
    await receives("set Service default/seen 3");
    await receives("set EndpointSlice default/seen 4");
    await receives("set Node n1 5");
    server.fault(({ verb }) => verb === "list" ? statusResponse(500, "", "no list is needed") : undefined);
    server.deafen();
    server.apply(service("missed"));
    clock.advance(59_000);
    assert.equal(logged.length, 0);
    clock.advance(1_000);
    await until(() => logged.filter((line) => line.includes("went silent for 60 s")).length === 3);
    clock.advance(10);
    await receives("set Service default/missed 6");
  }, { clock, readDeadlineMs: 60_000 });
});

Deno.test("requests to a server that never answers time out after the response deadline", async () => {
  const clock = createFakeClock();
  await withSource((server) => {
    failLists(server, 1, () => server.silence());
  }, async ({ server, until, logs, receives, received }) => {
    await until(() => received.includes("synced Node") && received.includes("synced EndpointSlice"));
    await server.watches(2);
    clock.advance(5_000);
    await logs("was not answered within 5 s");
    clock.advance(10);
    await receives("synced Service");
  }, { clock, responseDeadlineMs: 5_000 });
});

Deno.test("refused connections are retried, and the reason is logged", async () => {
  await withSource(() => {}, async ({ until, logged }) => {
    await until(() => logged.length >= 6);
    assert.match(logged[0]!, /got no answer \(.*Connection refused/);
  }, { connection: () => ({ master: "http://127.0.0.1:2" }) });
});
