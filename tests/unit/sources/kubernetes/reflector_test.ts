import assert from "node:assert/strict";
import { type SeenRequest, statusResponse } from "../../../fakes/api_server.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service, withSource } from "./source_under_test.ts";

const ofService = (lines: readonly string[]) => lines.filter((line) => line.includes("Service"));

Deno.test("each kind is listed with kube-proxy's selectors and synced", async () => {
  await withSource((server) => {
    server.apply(
      service("web"),
      {
        ...service("theirs"),
        metadata: { name: "theirs", labels: { "service.kubernetes.io/service-proxy-name": "x" } },
      },
      { kind: "EndpointSlice", metadata: { namespace: "default", name: "web-1" } },
      { kind: "Node", metadata: { name: "n1" } },
      { kind: "Node", metadata: { name: "n2" } },
    );
  }, async ({ server, received, until }) => {
    await until(() => received.filter((line) => line.startsWith("synced")).length === 3);
    assert.deepEqual(received.toSorted(), [
      "set EndpointSlice default/web-1 4",
      "set Node n1 5",
      "set Service default/web 2",
      "synced EndpointSlice",
      "synced Node",
      "synced Service",
    ]);
    await server.watches(3);
    assert.match(server.requests[0]!.headers.get("user-agent")!, /^sluice\//);
  });
});

Deno.test("a proxy with a name lists exactly the services of that name", async () => {
  const ofProxy = (name: string) => (
    { ...service(name), metadata: { namespace: "default", name, labels: { [PROXY_NAME]: name } } }
  );
  await withSource((server) => server.apply(service("web"), ofProxy("edge"), ofProxy("other")), async (source) => {
    await source.receives("synced Service");
    assert.deepEqual(ofService(source.received).map((line) => line.replace(/ \d+$/, "")), [
      "set Service default/edge",
      "synced Service",
    ]);
  }, { serviceProxyName: "edge" });
});

const HEADLESS = "service.kubernetes.io/headless";
const PROXY_NAME = "service.kubernetes.io/service-proxy-name";
const labelled = (kind: "Service" | "EndpointSlice", name: string, label: string) => ({
  kind,
  metadata: { namespace: "default", name, labels: { [label]: "" } },
});
const queriesOfServices = ({ requests }: { readonly requests: readonly SeenRequest[] }) =>
  requests.filter(({ path }) => path.endsWith("/services")).map(({ verb, query }) => `${verb} ${query.fieldSelector}`);

Deno.test("services are selected by their proxy's label and cluster IP, slices by the label of headless services", async () => {
  await withSource((server) => {
    server.apply(
      labelled("Service", "labelled", HEADLESS),
      labelled("Service", "theirs", PROXY_NAME),
      service("headless", { spec: { clusterIP: "None" } }),
      labelled("EndpointSlice", "headless", HEADLESS),
      labelled("EndpointSlice", "theirs", PROXY_NAME),
    );
  }, async ({ server, received, until }) => {
    await until(() => received.filter((line) => line.startsWith("synced")).length === 3);
    assert.deepEqual(received.filter((line) => line.startsWith("set")).toSorted(), [
      "set EndpointSlice default/theirs 6",
      "set Service default/labelled 2",
    ]);
    await server.watches(3);
    assert.deepEqual(queriesOfServices(server), ["list spec.clusterIP!=None", "watch spec.clusterIP!=None"]);
  });
});

Deno.test("if a server before 1.31 refuses the selector of cluster IPs, it is dropped", async () => {
  await withSource((server) => {
    server.apply(service("web"), service("headless", { spec: { clusterIP: "None" } }));
    server.fault(({ query }) =>
      query.fieldSelector?.startsWith("spec.")
        ? statusResponse(400, "BadRequest", '"spec.clusterIP" is not a known field selector')
        : undefined
    );
  }, async ({ server, receives, received, logged }) => {
    await receives("synced Service");
    await server.watches(3);
    assert.deepEqual(queriesOfServices(server), ["list spec.clusterIP!=None", "list undefined", "watch undefined"]);
    assert.deepEqual(ofService(received).slice(0, 2), ["set Service default/web 2", "set Service default/headless 3"]);
    assert.equal(logged.length, 1);
    assert.match(logged[0]!, /INFO .*without the selectors.*not a known field selector.*spec\.clusterIP!=None/);
  });
});

Deno.test("refused requests are not logged any more once the server answers", async () => {
  const logClock = createFakeClock();
  await withSource((server) => {
    server.fault(() => statusResponse(401, "Unauthorized", "Unauthorized"));
  }, async ({ server, receives, logged, until }) => {
    const refused = () => logged.filter((line) => line.includes("request to the API server failed"));
    await until(() => server.requests.length >= 12);
    assert.equal(refused().length, 3, "one line for each kind");
    server.fault(undefined);
    for (const kind of ["Service", "EndpointSlice", "Node"]) await receives(`synced ${kind}`);
    logClock.advance(600_000);
    assert.equal(refused().length, 3);
  }, { logClock });
});

Deno.test("a missing node is synced, and reported when it is created and deleted", async () => {
  await withSource(() => {}, async ({ server, receives }) => {
    await receives("synced Node");
    server.apply({ kind: "Node", metadata: { name: "n1" } });
    await receives("set Node n1 2");
    server.remove({ kind: "Node", metadata: { name: "n1" } });
    await receives("delete Node n1");
  });
});

Deno.test("the first list is from the server's memory; later ones are from its storage, page by page", async () => {
  await withSource((server) => {
    for (let i = 0; i < 25; i++) server.apply(service(`s${i}`));
  }, async ({ server, receives, until, received }) => {
    await receives("synced Service");
    await server.watches(3);
    server.expire();
    server.dropWatches();
    for (let i = 0; i < 25; i += 9) server.remove(service(`s${i}`));
    server.apply(service("s1"));
    await until(() => received.filter((line) => line.startsWith("delete")).length === 3);
    const pages = server.requests.filter(({ path, query }) => path.endsWith("/services") && query.limit === "10");
    assert.equal(pages.filter(({ query }) => query.continue !== undefined).length, 2);
    assert.equal(pages.filter(({ query }) => query.resourceVersion === "0").length, 1);
  }, { pageSize: 10 });
});

Deno.test("an expired continue token restarts the list; no object is reported twice", async () => {
  await withSource((server) => {
    for (let i = 0; i < 25; i++) server.apply(service(`s${i}`));
  }, async ({ server, receives, until, received }) => {
    await receives("synced Service");
    await server.watches(3);
    let expired = false;
    server.fault(({ query }) => {
      if (query.continue === undefined || expired) return undefined;
      expired = true;
      return statusResponse(410, "Expired", "The provided continue parameter is too old");
    });
    server.expire();
    server.dropWatches();
    server.remove(service("s3"));
    server.apply(service("new"));
    await receives("delete Service default/s3");
    await until(() => received.includes("set Service default/new 29"));
    assert.equal(expired, true);
    assert.equal(received.filter((line) => line.startsWith("set Service")).length, 26);
    assert.equal(received.filter((line) => line.startsWith("synced Service")).length, 1);
  }, { pageSize: 10 });
});

Deno.test("an interrupted watch resumes after the last event or bookmark; nothing is reported twice", async () => {
  await withSource((server) => server.apply(service("web")), async ({ server, receives, received }) => {
    await receives("synced Service");
    await server.watches(3);
    server.apply(service("web"));
    await receives("set Service default/web 3");
    server.apply({ kind: "Node", metadata: { name: "elsewhere" } });
    server.bookmark();
    server.apply(service("late"));
    await receives("set Service default/late 5");
    server.apply({ kind: "Node", metadata: { name: "elsewhere" } });
    server.bookmark();
    server.dropWatches();
    await server.watches(3);
    server.apply(service("web"));
    await receives("set Service default/web 7");
    const watches = server.requests.filter(({ path, verb }) => path.endsWith("/services") && verb === "watch");
    assert.equal(watches.at(-1)!.query.resourceVersion, "6");
    assert.equal(watches[0]!.query.allowWatchBookmarks, "true");
    assert.equal(watches[0]!.query.timeoutSeconds, "450");
    assert.equal(server.requests.filter(({ verb }) => verb === "list").length, 3);
    assert.deepEqual(ofService(received), [
      "set Service default/web 2",
      "synced Service",
      "set Service default/web 3",
      "set Service default/late 5",
      "set Service default/web 7",
    ]);
  });
});

Deno.test("an incomplete event at the end of a watch is not applied, and comes with the next watch", async () => {
  for (const how of ["orderly", "broken"] as const) {
    await withSource((server) => server.apply(service("web")), async ({ server, received, receives }) => {
      await receives("synced Service");
      await server.watches(3);
      server.send("Service", '{"type":"ADDED","object":{"kind":"Service","metadata":{"namespace":"default","name":"ha');
      server.dropWatches(how);
      await server.watches(3);
      server.apply(service("half"));
      await receives("set Service default/half 3");
      assert.deepEqual(ofService(received).slice(2), ["set Service default/half 3"]);
    });
  }
});

Deno.test("events that arrive together are reported within one turn of the event loop", async () => {
  await withSource(() => {}, async ({ server, receives, received }) => {
    await receives("synced Service");
    await server.watches(3);
    const event = (name: string) =>
      JSON.stringify({ type: "ADDED", object: service(name) }).replace('"name"', '"resourceVersion":"9","name"') + "\n";
    server.send("Service", event("a") + event("b") + event("c"));
    await receives("set Service default/a 9");
    assert.deepEqual(received.filter((line) => line.startsWith("set")).map((line) => line.split("/")[1]), [
      "a 9",
      "b 9",
      "c 9",
    ]);
  });
});

for (
  const [form, lose] of [
    ["answer", undefined],
    ["ERROR event", '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'],
  ] as const
) {
  Deno.test(`410 as ${form}: a relist finds deletions and does not report unchanged objects`, async () => {
    await withSource(
      (server) => server.apply(service("stays"), service("goes"), service("changes")),
      async (source) => {
        const { server, receives, received } = source;
        await receives("synced Service");
        await server.watches(3);
        const before = ofService(received).length;
        server.expire();
        if (lose) server.send("Service", lose);
        else server.dropWatches();
        server.dropWatches();
        server.remove(service("goes"));
        server.apply(service("changes"));
        await receives("delete Service default/goes");
        await server.watches(3);
        server.apply(service("last"));
        await receives("set Service default/last 8");
        assert.deepEqual(ofService(received).slice(before).toSorted(), [
          "delete Service default/goes",
          "set Service default/changes 7",
          "set Service default/last 8",
        ]);
      },
    );
  });
}

Deno.test("older resourceVersions are detected at the next event, and every object is reported again", async () => {
  await withSource((server) => {
    for (let i = 0; i < 20; i++) server.apply(service("web"));
    server.apply(service("lost"));
  }, async ({ server, receives, logs }) => {
    await receives("synced Service");
    await server.watches(3);
    server.dropWatches();
    await server.watches(3);
    server.restore(3);
    server.apply(service("web"));
    await logs("resourceVersion went back, relisting kind=Service before=22 now=4");
    await receives("delete Service default/lost");
    await receives("set Service default/web 4");
  });
});

Deno.test("an object that becomes invalid is deleted with a problem, and returns when it is valid", async () => {
  await withSource((server) => server.apply(service("web")), async ({ server, receives, received }) => {
    await receives("synced Service");
    await server.watches(3);
    server.apply(service("web", { unusable: true }));
    server.apply(service("never", { unusable: true }));
    server.apply(service("web"));
    await receives("set Service default/web 5");
    assert.deepEqual(ofService(received).slice(2), [
      "problem Service default/web: it is unusable",
      "delete Service default/web",
      "problem Service default/never: it is unusable",
      "set Service default/web 5",
    ]);
  });
});
