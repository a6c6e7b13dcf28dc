import assert from "node:assert/strict";
import { createChooser, createExpiringMap, type Target } from "../../../relay/target.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { seeded } from "../../fakes/random.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";

const target = (clusterEndpoints: string[], affinitySeconds = 0): Target => ({
  ...{ key: "default/web|tcp", list: "cluster" },
  servicePort: fakeServicePort("default/web", { clusterEndpoints, affinitySeconds, localEndpoints: ["local"] }),
});
const chooserOf = (random = seeded(), clock = createFakeClock()) => createChooser({ clock, random });

Deno.test("each endpoint is a candidate once, and each comes first equally often", () => {
  const chooser = chooserOf();
  const firsts = new Map<string, number>();
  for (let i = 0; i < 3000; i++) {
    const order = [...chooser.candidates(target(["a", "b", "c"]), "10.0.0.1")];
    assert.deepEqual([...order].sort(), ["a", "b", "c"]);
    firsts.set(order[0]!, (firsts.get(order[0]!) ?? 0) + 1);
  }
  // 3000 draws of 1/3: seven standard deviations are 181.
  for (const times of firsts.values()) assert.ok(Math.abs(times - 1000) < 181, String(times));
});

Deno.test("a listener of the local list uses the local endpoints; an empty list has no candidate", () => {
  const chooser = chooserOf();
  assert.deepEqual([...chooser.candidates({ ...target(["a"]), list: "local" }, "10.0.0.1")], ["local"]);
  assert.deepEqual([...chooser.candidates(target([]), "10.0.0.1")], []);
});

Deno.test("with affinity, a client's endpoint comes first while it is in the list, for this client alone", () => {
  const chooser = chooserOf(() => 0);
  const web = target(["a", "b", "c"], 60);
  chooser.chosen(web, "10.0.0.1", "c");
  assert.equal([...chooser.candidates(web, "10.0.0.1")][0], "c");
  assert.equal([...chooser.candidates(web, "10.0.0.2")][0], "a");
  assert.equal([...chooser.candidates({ ...web, key: "default/other|tcp" }, "10.0.0.1")][0], "a");
  assert.deepEqual([...chooser.candidates(target(["a", "b"], 60), "10.0.0.1")], ["a", "b"]);
  assert.equal([...chooser.candidates(target(["a", "b", "c"]), "10.0.0.1")][0], "a");
});

Deno.test("the endpoints of 50,000 clients are known, and the longest unused one makes room for more", () => {
  const chooser = chooserOf(() => 0), web = target(["a", "b"], 60);
  const firstOf = (client: number) => [...chooser.candidates(web, String(client))][0];
  for (let client = 0; client < 50_000; client++) chooser.chosen(web, String(client), "b");
  assert.equal(firstOf(0), "b");
  chooser.chosen(web, "50000", "b");
  assert.deepEqual([0, 1, 50_000].map(firstOf), ["a", "b", "b"]);
});

Deno.test("an expiring map forgets what has expired, and what was set longest ago", () => {
  const clock = createFakeClock();
  const map = createExpiringMap<string>(clock, 2);
  map.set("one", "a", 10_000);
  map.set("two", "b", 60_000);
  map.set("one", "a", 10_000);
  map.set("three", "c", 60_000);
  assert.deepEqual(["one", "two", "three"].map((name) => map.get(name)), ["a", undefined, "c"]);
  clock.advance(10_000);
  assert.deepEqual([map.get("one"), map.isEmpty()], [undefined, false]);
  clock.advance(50_000);
  assert.equal(map.isEmpty(), true, "nothing is kept of what has expired");
});

Deno.test("an endpoint that the relay may not connect to is no candidate, not even with affinity", () => {
  const chooser = createChooser({
    clock: createFakeClock(),
    random: () => 0,
    mayConnect: (endpoint) => endpoint !== "a",
  });
  const web = target(["a", "b"], 60);
  chooser.chosen(web, "10.0.0.1", "a");
  assert.deepEqual([...chooser.candidates(web, "10.0.0.1")], ["b"]);
  assert.deepEqual([...chooser.candidates(target(["a"]), "10.0.0.1")], []);
});

Deno.test("the first candidate is chosen by weight, and the others follow", () => {
  const chooser = chooserOf();
  const { servicePort, ...rest } = target(["a", "b", "c"]);
  const weighted = {
    ...rest,
    servicePort: { ...servicePort, balance: { algorithm: "random", clusterWeights: [3, 0, 1] } },
  } as const;
  const firsts: Record<string, number> = { a: 0, b: 0, c: 0 };
  for (let i = 0; i < 4000; i++) {
    const order = [...chooser.candidates(weighted, "10.0.0.1")];
    assert.deepEqual([...order].sort(), ["a", "b", "c"]);
    firsts[order[0]!]!++;
  }
  assert.equal(firsts["b"], 0);
  // 4000 draws of 3/4: seven standard deviations are 192.
  assert.ok(Math.abs(firsts["a"]! - 3000) < 192, String(firsts["a"]));
});

Deno.test("an endpoint that lately failed is tried last for some seconds, unless all did or affinity asks for it", () => {
  const clock = createFakeClock(), chooser = chooserOf(() => 0, clock);
  const order = (of: Target, client = "10.0.0.1") => [...chooser.candidates(of, client)];
  const web = target(["a", "b", "c"]), sticky = target(["a", "b", "c"], 60);
  chooser.chosen(sticky, "10.0.0.2", "a");

  chooser.late("a");
  assert.deepEqual(order(web), ["b", "c", "a"]);
  assert.equal(order(sticky, "10.0.0.2")[0], "a");
  const { servicePort, ...rest } = web;
  assert.deepEqual(
    order({ ...rest, servicePort: { ...servicePort, protocol: "udp" } })[0],
    "a",
    "UDP is another matter",
  );
  const balance = { algorithm: "random", clusterWeights: [5, 0, 1] } as const;
  assert.equal(order({ ...rest, servicePort: { ...servicePort, balance } })[0], "c", "by the weights of the others");
  const drained = { ...balance, clusterWeights: [5, 0, 0] };
  assert.deepEqual(order({ ...rest, servicePort: { ...servicePort, balance: drained } }), ["b", "c", "a"]);

  clock.advance(4999);
  chooser.late("b");
  assert.deepEqual(order(web), ["c", "a", "b"]);
  chooser.late("c");
  assert.equal(order(web)[0], "a", "all have failed");
  chooser.chosen(web, "10.0.0.1", "c");
  clock.advance(1);
  assert.deepEqual(order(web), ["a", "c", "b"]);
});
