import assert from "node:assert/strict";
import { attentionText, type BrowseQuestion, createAnswers } from "../../../answers/mod.ts";
import { fakeAnswerBasis, HERE } from "../../fakes/answer_basis.ts";
import { endpoint, endpointSlice, node, service } from "../../fakes/cluster_objects.ts";

const ip = (i: number) => `10.0.${i >> 8}.${i & 255}`;
const endpoints = (count: number, ready = true) =>
  Array.from({ length: count }, (_, i) => endpoint(`10.1.${i >> 8}.${i & 255}`, { ready, serving: ready }));

const answers = createAnswers(fakeAnswerBasis([
  node(HERE, { addresses: ["192.168.1.1"] }),
  ...Array.from({ length: 30 }, (_, i) => {
    const name = `a/s${String(i).padStart(2, "0")}`;
    return [service(name, { clusterIPs: [ip(i + 10)] }), endpointSlice(`${name}-1`, endpoints(3))];
  }).flat(),
  service("b/many", { clusterIPs: ["10.0.9.1"] }),
  endpointSlice("b/many-1", endpoints(600)),
  service("b/out", { clusterIPs: ["10.0.9.2"] }),
  endpointSlice("b/out-1", endpoints(2, false)),
  service("b/too", { clusterIPs: ["10.0.9.1"] }),
]));

const ask = (question: Partial<BrowseQuestion>) =>
  answers.browse({ search: "", attention: false, page: 1, pageSize: 10, ...question });

Deno.test("services are paged by name; a page past the end shows the last one", async () => {
  const { total, pages, services } = await ask({ page: 2 });
  assert.deepEqual([total, pages], [33, 4]);
  assert.deepEqual(services.map(({ name }) => name)[0], "a/s10:http");
  const last = await ask({ page: 99 });
  assert.deepEqual([last.page, last.services.map(({ name }) => name)], [4, [
    "b/many:http",
    "b/out:http",
    "b/too:http",
  ]]);
  assert.deepEqual(await ask({ search: "nothing" }), {
    total: 0,
    page: 1,
    pages: 1,
    services: [],
    attention: { refused: 0, unserved: 1, limited: 0, empty: 1 },
    namespaces: ["a", "b"],
  });
});

Deno.test("with many services, few endpoints of each are shown; with few services, nearly all; unused ones first", async () => {
  const many = (await ask({ page: 4 })).services.find(({ name }) => name === "b/many:http")!;
  assert.deepEqual([many.endpoints, many.usedEndpoints, many.shownEndpoints.length], [600, 600, 12]);
  assert.equal((await ask({ search: "b/many" })).services[0]!.shownEndpoints.length, 500);
});

Deno.test("a service that lost a frontend or has no usable endpoint needs attention", async () => {
  const { services } = await ask({ attention: true });
  assert.deepEqual(services.map(({ name }) => name), ["b/out:http", "b/too:http"]);
  assert.match(services[1]!.problems.join(), /b\/many/);
});

Deno.test("services that need attention are counted by reason, the worst first", () => {
  const none = { refused: 0, unserved: 0, limited: 0, empty: 0 };
  assert.equal(attentionText(none), "");
  assert.equal(attentionText({ ...none, empty: 10 }), "10 service ports without endpoints");
  assert.equal(
    attentionText({ refused: 1, unserved: 2, limited: 0, empty: 1000 }),
    "1 service port refused by the kernel, 2 whose address another service has, 1,000 without endpoints",
  );
});

Deno.test("services can be those of a namespace, and in another order", async () => {
  const first = async (question: Partial<BrowseQuestion>) => (await ask(question)).services.map(({ name }) => name)[0];
  assert.equal((await ask({ namespace: "b" })).total, 3);
  assert.equal((await ask({ namespace: "b", search: "s0" })).total, 0);
  const needy = (await ask({ order: "attention" })).services.map(({ name }) => name);
  assert.deepEqual(needy.slice(0, 3), ["b/too:http", "b/out:http", "a/s00:http"]);
  assert.equal(await first({ order: "endpoints" }), "b/out:http");
  assert.equal(await first({ order: "name" }), "a/s00:http");
  assert.equal((await ask({ order: "endpoints", page: 99 })).services.at(-1)!.name, "b/many:http");
});

Deno.test("services are sorted by their traffic, which every list shows if it is counted", async () => {
  const rates: Readonly<Record<string, number>> = { "a/few:http|tcp": 5, "a/most:http|tcp": 500 };
  const counted = (connections: number) => {
    const perSecond = { connections, packets: 0, bytes: 0 };
    return { connections, packets: 0, bytes: 0, perSecond, failures: {} };
  };
  const counting = createAnswers({
    ...fakeAnswerBasis(["few", "most", "none"].flatMap((name, i) => [
      service(`a/${name}`, { clusterIPs: [ip(i + 10)] }),
      endpointSlice(`a/${name}-1`, endpoints(1)),
    ])),
    traffic: {
      ofPort: (_family, key) => counted(rates[key] ?? 0),
      ofEndpoint: () => counted(7),
    },
  });
  const page = await counting.browse({ search: "", attention: false, page: 1, pageSize: 10, order: "traffic" });
  assert.deepEqual(page.services.map(({ name }) => name), ["a/most:http", "a/few:http", "a/none:http"]);
  assert.equal(page.countsTraffic, true);
  assert.equal(page.services[0]!.shownEndpoints[0]!.traffic?.connections, 7);
  assert.equal((await counting.services("most"))[0]!.traffic?.connections, 500);
  const plain = await ask({});
  assert.equal(plain.countsTraffic, undefined);
  assert.ok(!("traffic" in plain.services[0]!));
});
