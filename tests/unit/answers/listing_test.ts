import assert from "node:assert/strict";
import {
  attentionText,
  type BrowseQuestion,
  createAnswers,
  frontendsOfService,
  stateOfService,
} from "../../../answers/mod.ts";
import { fakeAnswerBasis, HERE } from "../../fakes/answer_basis.ts";
import { endpoint, endpointSlice, node, service } from "../../fakes/cluster_objects.ts";
import { fakeSettings } from "../../fakes/service_port.ts";

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

Deno.test("services are paged by name; a page past the end shows the last one, one before the first shows that", async () => {
  for (const page of [0, -3]) assert.deepEqual(await ask({ page }), await ask({ page: 1 }));
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

Deno.test("the unused endpoints of a service are shown first, and few only if there are more than four services", async () => {
  const mixed = createAnswers(fakeAnswerBasis([
    node(HERE),
    service("a/x"),
    endpointSlice("a/x-1", [...endpoints(20), endpoint("10.2.0.1", { ready: false, serving: false })]),
    ...["x1", "x2", "x3", "y"].map((name, i) => service(`b/${name}`, { clusterIPs: [ip(i + 10)] })),
  ]));
  for (const [search, total, shown] of [["", 5, 12], ["x", 4, 21]] as const) {
    const page = await mixed.browse({ search, attention: false, page: 1, pageSize: 10 });
    const { shownEndpoints } = page.services[0]!;
    assert.deepEqual([page.total, shownEndpoints[0]!.used, shownEndpoints.length], [total, false, shown]);
  }
});

Deno.test("an endpoint is in use if one traffic policy uses it and its weight is not 0", async () => {
  const [here, far] = [endpoint("10.1.0.1", { nodeName: HERE, zone: "a" }), endpoint("10.1.0.2", { zone: "b" })];
  const answers = createAnswers(fakeAnswerBasis([
    node(HERE),
    service("a/local", { internalPolicyLocal: true }),
    endpointSlice("a/local-1", [here, far]),
    service("a/weighted", { clusterIPs: ["10.0.0.2"], own: { balance: "random", weights: "zone=b: 0" } }),
    endpointSlice("a/weighted-1", [here, far]),
  ], { settings: fakeSettings({ mode: "nftables" }) }));
  assert.deepEqual((await answers.services("")).map(({ name, usedEndpoints }) => [name, usedEndpoints]), [
    ["a/local:http", 1],
    ["a/weighted:http", 1],
  ]);
  assert.deepEqual((await answers.endpoints("a/")).map(({ used }) => used), [true, false, true, false]);
});

Deno.test("an endpoint without a node is not on this node, even if that has no name", async () => {
  const objects = [service("a/web"), endpointSlice("a/web-1", [endpoint("10.1.0.1", { nodeName: "" })])];
  const [listed] = await createAnswers({ ...fakeAnswerBasis(objects), nodeName: "" }).endpoints("a/web");
  assert.equal(listed!.onThisNode, false);
});

Deno.test("a service that has gone since it was planned is not listed", async () => {
  const basis = fakeAnswerBasis([node(HERE), service("a/gone"), service("a/web", { clusterIPs: ["10.0.0.2"] })]);
  const { services } = basis.tracking;
  const tracking = {
    ...basis.tracking,
    services: { ...services, get: (key: string) => key === "a/gone" ? undefined : services.get(key as never) },
  };
  const answers = createAnswers({ ...basis, tracking });
  assert.deepEqual((await answers.services("")).map(({ name }) => name), ["a/web:http"]);
  const page = await answers.browse({ search: "", attention: false, page: 1, pageSize: 10 });
  assert.deepEqual(page.services.map(({ name }) => name), ["a/web:http"]);
});

Deno.test("services are ordered by their last change, and those of two families by family", async () => {
  const basis = fakeAnswerBasis([
    node(HERE),
    service("a/both", { clusterIPs: ["10.0.0.2", "fd00::2"] }),
    service("a/other", { clusterIPs: ["10.0.0.3"] }),
  ]);
  const order = ["a/other:http", "a/both:http"];
  for (const port of basis.families.IPv4.planner.ports()) {
    Object.assign(port, { plannedIn: 10 - order.indexOf(port.wanted.name) });
  }
  const names = async (order: BrowseQuestion["order"]) =>
    (await createAnswers(basis).browse({ search: "", attention: false, page: 1, pageSize: 10, order })).services
      .map(({ name, family }) => `${name} ${family}`);
  assert.deepEqual(await names("name"), ["a/both:http IPv4", "a/both:http IPv6", "a/other:http IPv4"]);
  assert.deepEqual((await names("changed")).slice(0, 2), ["a/other:http IPv4", "a/both:http IPv4"]);
});

Deno.test("traffic that is stopped is noted, that from outside only where a service has an address for it", async () => {
  const notes = async (type: "ClusterIP" | "NodePort", endpoints: readonly ReturnType<typeof endpoint>[]) => {
    const ports = [{ name: "http", protocol: "tcp", port: 80, nodePort: type === "NodePort" ? 30080 : 0 }] as const;
    const web = service("a/web", { type, externalPolicyLocal: type === "NodePort", ports: [...ports] });
    const basis = fakeAnswerBasis([node(HERE), web, endpointSlice("a/web-1", [...endpoints])]);
    const [listed] = await createAnswers(basis).services("a/web");
    return stateOfService(listed!).notes;
  };
  const far = endpoint("10.1.0.1", { nodeName: "far" });
  const inside = "Traffic to the cluster IP is rejected: no usable endpoint.";
  assert.deepEqual(await notes("ClusterIP", []), [inside]);
  assert.deepEqual(await notes("ClusterIP", [far]), []);
  assert.deepEqual(await notes("NodePort", []), [inside, "Traffic from outside is rejected: no usable endpoint."]);
  assert.deepEqual(await notes("NodePort", [far]), [
    "Traffic from outside is dropped: traffic policy Local, and this node has no usable endpoint.",
  ]);
});

Deno.test("a service that the kernel refuses needs attention first", async () => {
  const basis = fakeAnswerBasis([node(HERE), service("a/web"), service("b/empty", { clusterIPs: ["10.0.0.9"] })]);
  const refused = { state: "refused", refusal: "no memory" } as const;
  const families = {
    ...basis.families,
    IPv4: {
      ...basis.families.IPv4,
      since: ({ key }: { readonly key: string }) => key.startsWith("a/web") ? refused as never : undefined,
    },
  };
  const page = await createAnswers({ ...basis, families }).browse({
    ...{ search: "", attention: true, order: "attention", page: 1, pageSize: 10 },
  });
  assert.deepEqual(page.attention, { refused: 1, unserved: 0, limited: 0, empty: 1 });
  assert.deepEqual(page.services.map(({ name }) => name), ["a/web:http", "b/empty:http"]);
  assert.equal(stateOfService(page.services[0]!).tone, "bad");
});

Deno.test("the reasons why services need attention are told apart", async () => {
  const ports = [{ name: "http", protocol: "tcp", port: 80, nodePort: 0 }] as const;
  const here = endpoint("10.1.0.1", { nodeName: HERE }), far = endpoint("10.1.0.2", { nodeName: "far" });
  const basis = fakeAnswerBasis([
    node(HERE),
    // Without addresses for outside traffic, policy Local needs no endpoint of other nodes.
    service("a/local", { clusterIPs: ["10.0.0.2"], internalPolicyLocal: true }),
    endpointSlice("a/local-1", [here]),
    service("a/elsewhere", { clusterIPs: ["10.0.0.3"], internalPolicyLocal: true }),
    endpointSlice("a/elsewhere-1", [far]),
    service("b/first", { clusterIPs: ["10.0.0.4"], externalIPs: ["192.0.2.1"], createdSeconds: 1, ports }),
    endpointSlice("b/first-1", [far]),
    service("b/second", { clusterIPs: ["10.0.0.5"], externalIPs: ["192.0.2.1"], createdSeconds: 2, ports }),
    endpointSlice("b/second-1", [far]),
    service("c/third", { clusterIPs: ["10.0.0.4"], createdSeconds: 3, ports }),
    endpointSlice("c/third-1", [far]),
    service("d/empty", { clusterIPs: ["10.0.0.6"] }),
  ]);
  const page = await createAnswers(basis).browse({
    ...{ search: "", attention: true, order: "attention", page: 1, pageSize: 10 },
  });
  assert.deepEqual(page.attention, { refused: 0, unserved: 1, limited: 1, empty: 1 });
  assert.deepEqual(page.services.map(({ name }) => name), ["c/third:http", "b/second:http", "d/empty:http"]);
});

Deno.test("a node port is listed at every address, or at the prefixes of its service", async () => {
  const listed = (await ask({ search: "b/many" })).services[0]!;
  const at = (nodePortPrefixes: readonly string[] | undefined) =>
    frontendsOfService({ ...listed, nodePort: 30080, nodePortPrefixes });
  assert.deepEqual(at(undefined), ["10.0.9.1:80", "*:30080"]);
  assert.deepEqual(at(["192.168.0.0/16"]), ["10.0.9.1:80", "192.168.0.0/16:30080"]);
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
  assert.equal(attentionText({ ...none, limited: 3 }), "3 service ports with a problem");
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
