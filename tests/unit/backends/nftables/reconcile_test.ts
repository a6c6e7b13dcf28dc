/** Reconciliation of the table: batches, refusals, restarts and repairs. */
import assert from "node:assert/strict";
import { type SyncResult, UnsupportedHostError } from "../../../../backends/contract/backend.ts";
import { createNftTools } from "../../../../backends/nftables/tools.ts";
import { type Runner, ToolTimeoutError } from "../../../../backends/tools/runner.ts";
import { TABLE } from "../../../../backends/nftables/table.ts";
import { type ServicePort, servicePortKey } from "../../../../core/model/mod.ts";
import { createFakeNftHost, type FakeNftHost } from "../../../fakes/nft_runner.ts";
import { outcomeShares } from "../../../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../../../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

const DAY_MS = 86_400_000;

function service(index: number, changes: Partial<ServicePort> = {}): ServicePort {
  return fakeServicePort(`default/s${index}:p`, {
    clusterIP: `10.96.${index >> 8}.${index & 255}`,
    clusterEndpoints: [`10.1.${index >> 8}.${index & 255}:80`],
    external: "reject",
    ...changes,
  });
}

const services = (count: number) => Array.from({ length: count }, (_, index) => service(index));

Deno.test("a change of an endpoint writes only its elements", async () => {
  const { snapshot, change, host } = backendUnderTest();
  await snapshot([service(1, { clusterEndpoints: ["10.1.0.1:80", "10.1.0.2:80"] }), service(2)]);
  host.transactions.length = 0;
  await change([service(1, { clusterEndpoints: ["10.1.0.1:80", "10.1.0.3:80"] })]);
  assert.deepEqual(host.transactions, [[
    "delete element ip sluice tcp-endpoints { 10.96.0.1 . 80 . 1 }",
    "add element ip sluice tcp-endpoints { 10.96.0.1 . 80 . 1 : 10.1.0.3 . 80 }",
  ]]);
});

Deno.test("an unchanged state starts no tool", async () => {
  const { snapshot, change, host } = backendUnderTest();
  await snapshot(services(3));
  host.transactions.length = 0;
  await change([service(1)]);
  await snapshot(services(3));
  assert.deepEqual(host.transactions, []);
});

Deno.test("hooks are added after the last of several batches", async () => {
  const { snapshot, host } = backendUnderTest();
  await snapshot(services(15_000));
  const hooksAt = host.transactions.findIndex((statements) =>
    statements.some((one) => one.includes("hook prerouting"))
  );
  assert.ok(host.transactions.length > 3);
  assert.equal(hooksAt, host.transactions.length - 1);
});

Deno.test("shared chains and addresses are deleted with the last service that uses them", async () => {
  const { snapshot, change, table } = backendUnderTest();
  const two = {
    clusterIP: "10.96.0.9",
    endpointsOnThisNode: ["10.1.0.9:80"],
    clusterEndpoints: ["10.1.0.9:80", "10.1.0.8:80"],
  };
  await snapshot([service(1, { ...two, port: 81 }), service(2, { ...two, port: 82 }), service(3)]);
  await change([], ["default/s1:p|tcp"]);
  assert.ok(table().chains.has("pick-tcp-2"));
  assert.ok(table().sets.get("cluster-ips")!.elements.has("10.96.0.9"));
  assert.ok(table().sets.get("hairpins")!.elements.has("10.1.0.9 . 10.1.0.9"));
  await change([], ["default/s2:p|tcp"]);
  assert.ok(!table().chains.has("pick-tcp-2"));
  assert.deepEqual([...table().sets.get("cluster-ips")!.elements.keys()], ["10.96.0.3"]);
  assert.equal(table().sets.get("hairpins")!.elements.size, 0);
});

Deno.test("a restart writes only what changed in the meantime", async () => {
  const first = backendUnderTest();
  const before = [
    ...services(4),
    service(7, { affinitySeconds: 60, external: "local", nodePort: 30007, localEndpoints: ["10.1.0.7:80"] }),
    service(6, { endpointsOnThisNode: ["10.1.0.6:80"] }),
    service(8, {
      loadBalancerIPs: ["192.0.2.8"],
      loadBalancerSources: fakeSources(["10.0.0.0/8"]),
      external: "cluster",
    }),
  ];
  await first.snapshot(before);
  first.host.transactions.length = 0;
  const { counts } = await backendUnderTest(first.host).snapshot(before);
  assert.deepEqual(first.host.transactions, []);
  assert.equal(counts["elements_written"], 0);
  await backendUnderTest(first.host).snapshot([...before.slice(1), service(9)]);
  assert.deepEqual(first.host.transactions.flat().sort(), [
    "add element ip sluice cluster-ips { 10.96.0.9 }",
    "add element ip sluice services { 10.96.0.9 . tcp . 80 : goto pick-tcp-1 }",
    "add element ip sluice tcp-endpoints { 10.96.0.9 . 80 . 0 : 10.1.0.9 . 80 }",
    "delete element ip sluice cluster-ips { 10.96.0.0 }",
    "delete element ip sluice services { 10.96.0.0 . tcp . 80 }",
    "delete element ip sluice tcp-endpoints { 10.96.0.0 . 80 . 0 }",
  ]);
});

Deno.test("a table with other set declarations is replaced in one transaction", async () => {
  const first = backendUnderTest();
  await first.snapshot(services(2));
  const wanted = [...first.table().sets.keys()];
  first.table().sets.set("services", {
    kind: "map",
    lines: ["typeof ip daddr : verdict"],
    elements: new Map(),
    clients: new Map(),
    counters: new Map(),
  });
  first.host.transactions.length = 0;
  const second = backendUnderTest(first.host);
  await second.snapshot(services(2));
  assert.equal(first.host.transactions.length, 1);
  assert.deepEqual([...second.table().sets.keys()].sort(), wanted.sort());
  assert.equal(second.table().sets.get("services")!.elements.size, 2);
});

Deno.test("if the kernel refuses one service port of a replacement, all others are written", async () => {
  const { host, snapshot, table } = backendUnderTest();
  host.tables.set(`ip ${TABLE}`, {
    sets: new Map([["services", {
      kind: "map",
      lines: ["typeof ip daddr : verdict"],
      elements: new Map(),
      clients: new Map(),
      counters: new Map(),
    }]]),
    chains: new Map(),
    counters: new Map(),
  });
  host.refuses = (statement) =>
    statement.includes("10.96.0.5 ") ? "Could not process rule: Invalid argument" : undefined;
  const { problems } = await snapshot(services(20));
  assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/s5:p"]);
  assert.equal(table().sets.get("services")!.elements.size, 19);
  assert.ok(table().chains.has("nat-prerouting"));
});

Deno.test("a service port that is deleted and added again is served at once, without another listing", async () => {
  const host = createFakeNftHost(), port = fakeServicePort("default/web:http", { nodePort: 30080 });
  const { snapshot, change } = backendUnderTest(host);
  await snapshot([port]);
  const ask = () => outcomeShares(host, { from: "pod-on-node", to: "10.96.0.10", port: 80 });
  const served = ask(), { listings } = host;
  for (let time = 0; time < 2; time++) {
    await change([], [servicePortKey(port.name, port.protocol)]);
    assert.notDeepEqual(ask(), served);
    await change([port]);
    assert.deepEqual(ask(), served);
  }
  assert.equal(host.listings, listings);
});

Deno.test("a refused service port does not delay others and is tried again", async () => {
  const { snapshot, change, host, table, backend } = backendUnderTest();
  host.refuses = (statement) =>
    statement.includes("10.96.0.5 ") ? "Could not process rule: Invalid argument" : undefined;
  const { problems } = await snapshot(services(20));
  assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/s5:p"]);
  assert.match(problems[0]!.message, /default\/s5:p.*Invalid argument/);
  assert.equal(table().sets.get("services")!.elements.size, 19);
  assert.ok(table().chains.has("nat-prerouting"));
  assert.deepEqual((await change([service(30)])).problems.length, 1);
  host.refuses = () => undefined;
  assert.deepEqual((await backend.resync()).problems, []);
  assert.equal(table().sets.get("services")!.elements.size, 21);
});

Deno.test("a refused service port is not tried again because of a comparison that another one needs", async () => {
  const { snapshot, change, host, table } = backendUnderTest();
  let tries = 0;
  host.refuses = (statement) => {
    if (!statement.includes("10.96.0.5 ")) return undefined;
    tries++;
    return "Could not process rule: Invalid argument";
  };
  await snapshot(services(20));
  const before = tries;
  // Another program deletes what the change is about to delete.
  table().sets.get("services")!.elements.delete("10.96.0.1 . tcp . 80");
  const { problems } = await change([service(30)], ["default/s1:p|tcp"]);
  assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/s5:p"]);
  assert.ok(table().sets.get("services")!.elements.has("10.96.0.30 . tcp . 80"));
  assert.equal(tries, before);
});

/** Has nft hang in every transaction with one of these addresses; returns how often it did. */
function hangAt(host: FakeNftHost, ...addresses: readonly string[]): () => number {
  let hung = 0;
  host.refuses = (statement) => {
    if (!addresses.some((address) => statement.includes(`${address} `))) return undefined;
    hung++;
    throw new ToolTimeoutError("nft", 60_000);
  };
  return () => hung;
}

/** Syncs until one succeeds, as a worker does; returns its problems. */
async function untilWritten(sync: () => Promise<SyncResult>): Promise<SyncResult["problems"]> {
  for (;;) {
    const result = await sync().catch((error) => assert.match(String(error), /did not end within 60 s/));
    if (result) return result.problems;
  }
}

/** Endpoints of a service port whose transaction may take nft long. */
const MANY_ENDPOINTS = Array.from({ length: 1_000 }, (_, i) => `10.2.${i >> 8}.${i & 255}:80`);

Deno.test("a service port whose transaction nft does not end in time is found, and holds up no other", async () => {
  for (const [others, most] of [[1, 4], [300, 8]] as const) {
    const { snapshot, change, host, table } = backendUnderTest();
    const hung = hangAt(host, "10.96.0.5");
    const ports = services(20).map((_, i) =>
      service(i, { clusterEndpoints: i === 5 ? MANY_ENDPOINTS : MANY_ENDPOINTS.slice(0, others) })
    );
    await snapshot([]);
    let sync = () => change(ports);
    const problems = await untilWritten(() => sync().finally(() => sync = () => change([])));
    assert.deepEqual(problems.map(({ code, servicePort }) => [code, servicePort]), [["rules-refused", "default/s5:p"]]);
    assert.match(
      problems[0]!.message,
      /unchanged until it changes or a later comparison.*: nft did not end within 60 s/,
    );
    assert.equal(table().sets.get("services")!.elements.size, 19);
    assert.ok(hung() <= most, `${hung()} transactions did not end in time`);
    // Others are written in transactions of their own.
    const before = hung();
    assert.deepEqual((await change([service(30)])).problems, problems);
    assert.ok(table().sets.get("services")!.elements.has("10.96.0.30 . tcp . 80"));
    assert.equal(hung(), before);
  }
});

Deno.test("several service ports whose transactions do not end in time are all found", async () => {
  const { snapshot, host, table } = backendUnderTest();
  const large = [3, 4, 17], hasEnded = (i: number) => !large.includes(i);
  const ports = services(20).map((port, i) => hasEnded(i) ? port : service(i, { clusterEndpoints: MANY_ENDPOINTS }));
  hangAt(host, "10.96.0.3", "10.96.0.4", "10.96.0.17");
  const problems = await untilWritten(() => snapshot(ports));
  assert.deepEqual(problems.map(({ servicePort }) => servicePort).sort(), [
    "default/s17:p",
    "default/s3:p",
    "default/s4:p",
  ]);
  assert.equal(table().sets.get("services")!.elements.size, 17);
  host.refuses = () => undefined;
  // A change ends it.
  const { problems: left } = await snapshot(ports.filter((_, i) => i !== 3));
  assert.deepEqual(left, []);
  assert.equal(table().sets.get("services")!.elements.size, 19);
});

Deno.test("comparisons try a service port again after ten times the limit that nft did not keep", async () => {
  const { snapshot, change, host, table, backend, clock } = backendUnderTest();
  await snapshot(services(3));
  const hung = hangAt(host, "10.96.0.1");
  const [problem] = await untilWritten(() => change([service(1, { clusterEndpoints: MANY_ENDPOINTS })]));
  const before = hung();
  clock.advance(540_000);
  assert.deepEqual((await backend.resync()).problems, [problem]);
  assert.equal(hung(), before);
  clock.advance(60_000);
  assert.deepEqual((await backend.resync()).problems, [problem]);
  assert.ok(hung() > before);
  host.refuses = () => undefined;
  clock.advance(600_000);
  assert.deepEqual((await backend.resync()).problems, []);
  assert.equal(table().sets.get("tcp-endpoints")!.elements.size, MANY_ENDPOINTS.length + 2);
});

for (
  const [kind, hangs, endpoints] of [
    ["an nft that ends nothing in time", () => true, MANY_ENDPOINTS],
    ["a small change", (statement: string) => statement.includes("10.96.0.1 "), MANY_ENDPOINTS.slice(0, 900)],
  ] as const
) {
  Deno.test(`no service port is at fault for ${kind}`, async () => {
    const { snapshot, change, host, table } = backendUnderTest();
    await snapshot(services(3));
    host.refuses = (statement) => {
      if (!hangs(statement)) return undefined;
      throw new ToolTimeoutError("nft", 60_000);
    };
    const late = /did not end within 60 s/;
    await assert.rejects(change([service(1, { clusterEndpoints: endpoints })]), late);
    for (let tries = 0; tries < 3; tries++) await assert.rejects(change([]), late);
    host.refuses = () => undefined;
    assert.deepEqual((await change([])).problems, []);
    assert.equal(table().sets.get("tcp-endpoints")!.elements.size, endpoints.length + 2);
  });
}

Deno.test("the rules of a service port whose change is refused stay as they are", async () => {
  const { snapshot, change, host, table, backend, clock } = backendUnderTest();
  await snapshot([...services(2), service(2, { clusterEndpoints: ["10.1.9.1:80", "10.1.9.2:80"] })]);
  const before = structuredClone(table().sets.get("tcp-endpoints")!.elements);
  host.refuses = (statement) => statement.includes("10.1.9.3") ? "Could not process rule: Invalid argument" : undefined;
  const { problems } = await change([service(2, { clusterEndpoints: ["10.1.9.3:80"] })]);
  assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/s2:p"]);
  const kept = () => assert.deepEqual(table().sets.get("tcp-endpoints")!.elements, before);
  kept();
  clock.advance(DAY_MS);
  await backend.resync();
  kept();
  assert.equal(table().sets.get("services")!.elements.get("10.96.0.2 . tcp . 80"), "goto pick-tcp-2");
  assert.ok(table().chains.has("pick-tcp-2"));
  // What stays of it goes with it.
  await change([], ["default/s2:p|tcp"]);
  clock.advance(DAY_MS);
  await backend.resync();
  assert.equal(table().sets.get("tcp-endpoints")!.elements.size, 2);
  assert.ok(!table().chains.has("pick-tcp-2"));
});

Deno.test("a large service port gets all of its rules again when a refused change is undone", async () => {
  const { snapshot, change, host, table, backend, clock } = backendUnderTest();
  const clusterEndpoints = Array.from({ length: 10_001 }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`);
  const large = service(1, { clusterEndpoints });
  await snapshot([large, service(2)]);
  const elements = () => [...table().sets].map(([name, set]) => [name, set.elements.size]), wanted = elements();
  host.refuses = (statement) =>
    statement.includes(" . tcp . 81 ") ? "Could not process rule: Invalid argument" : undefined;
  const { problems } = await change([{ ...large, port: 81 }]);
  assert.equal(problems.length, 1);
  clock.advance(DAY_MS);
  const { counts } = await backend.resync();
  assert.equal(counts["drift_repaired"], 0);
  assert.deepEqual(elements(), wanted);
  await change([large]);
  assert.deepEqual(elements(), wanted);
});

Deno.test("while a change is refused, its own node port stays, and that of another program goes", async () => {
  const { snapshot, change, host, table, backend, clock } = backendUnderTest();
  const port = service(2, { nodePort: 30_002, external: "cluster" });
  await snapshot([service(1), port]);
  const { elements } = table().sets.get("services")!;
  const own = elements.get("0.0.0.0 . tcp . 30002");
  assert.ok(own);
  host.refuses = (statement) => statement.includes("10.1.9.3") ? "Could not process rule: Invalid argument" : undefined;
  const { problems } = await change([{ ...port, clusterEndpoints: ["10.1.9.3:80", "10.1.9.4:80"] }]);
  assert.equal(problems.length, 1);
  elements.set("0.0.0.0 . tcp . 30077", own);
  clock.advance(DAY_MS);
  await backend.resync();
  assert.deepEqual([...table().sets.get("services")!.elements].filter(([key]) => key.startsWith("0.0.0.0 ")), [
    ["0.0.0.0 . tcp . 30002", own],
  ]);
});

Deno.test("a set that another program deleted is created again by a comparison", async () => {
  const { snapshot, table, backend, clock } = backendUnderTest();
  await snapshot([service(1, { affinitySeconds: 60 })]);
  const wanted = [...table().sets.keys()].sort();
  table().sets.delete("clients");
  clock.advance(DAY_MS);
  await backend.resync();
  assert.deepEqual([...table().sets.keys()].sort(), wanted);
});

Deno.test("service ports that swap addresses are written, even beside a refused one", async () => {
  const { snapshot, change, host, table } = backendUnderTest();
  await snapshot(services(4));
  host.refuses = (statement) =>
    statement.includes("10.96.0.9 ") ? "Could not process rule: Invalid argument" : undefined;
  const at = (index: number, address: number) => service(index, { clusterIP: `10.96.0.${address}` });
  const { problems } = await change([at(0, 3), at(9, 9), at(1, 2), at(2, 1), at(3, 0)]);
  assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/s9:p"]);
  assert.equal(table().sets.get("tcp-endpoints")!.elements.get("10.96.0.3 . 80 . 0"), "10.1.0.0 . 80");
  assert.equal(table().sets.get("tcp-endpoints")!.elements.get("10.96.0.0 . 80 . 0"), "10.1.0.3 . 80");
});

Deno.test("no service is at fault for a failure of the host", async () => {
  const { snapshot, host, change } = backendUnderTest();
  host.refuses = () => "Could not process rule: Cannot allocate memory";
  await assert.rejects(snapshot(services(3)), /Cannot allocate memory/);
  host.refuses = () => undefined;
  assert.deepEqual((await change([])).problems, []);
});

Deno.test("after a killed tool the kernel is read before the next write", async () => {
  const { snapshot, change, host, table } = backendUnderTest();
  await snapshot(services(3));
  host.onTransaction = () => {
    throw new Error("killed");
  };
  await assert.rejects(change([service(5)]), /killed/);
  host.onTransaction = () => {};
  const listings = host.listings;
  await change([]);
  assert.equal(host.listings, listings + 1);
  assert.ok(table().sets.get("services")!.elements.has("10.96.0.5 . tcp . 80"));
});

Deno.test("drift is repaired element by element", async () => {
  const { snapshot, host, table, backend, clock } = backendUnderTest();
  await snapshot(services(5));
  const wanted = structuredClone([...table().sets.entries()]);
  table().sets.get("services")!.elements.delete("10.96.0.1 . tcp . 80");
  table().sets.get("services")!.elements.set("10.96.9.9 . tcp . 80", "goto pick-tcp-1");
  table().sets.get("tcp-endpoints")!.elements.set("10.96.0.2 . 80 . 0", "10.9.9.9 . 80");
  table().sets.get("cluster-ips")!.elements.delete("10.96.0.3");
  table().sets.get("hairpins")!.elements.set("10.1.1.1 . 10.1.1.1", "");
  const services0 = table().chains.get("services")!.rules;
  table().chains.get("services")!.rules = [];
  host.transactions.length = 0;
  clock.advance(DAY_MS);
  const { counts } = await backend.resync();
  assert.ok(counts["drift_repaired"]! >= 5);
  assert.deepEqual(table().chains.get("services")!.rules, services0);
  const sorted = (sets: typeof wanted) => sets.map(([name, { elements }]) => [name, [...elements].sort()]).sort();
  assert.deepEqual(sorted([...table().sets.entries()]), sorted(wanted));
  assert.ok(host.transactions.flat().every((statement) => !statement.includes("10.96.0.4 ")));
  host.transactions.length = 0;
  clock.advance(DAY_MS);
  assert.equal((await backend.resync()).counts["drift_repaired"], 0);
  assert.deepEqual(host.transactions, []);
});

Deno.test("a chain that hangs on another hook is created again on its own", async () => {
  const { snapshot, backend, clock, table } = backendUnderTest();
  await snapshot([service(1)]);
  const chain = table().chains.get("nat-prerouting")!;
  table().chains.set("nat-prerouting", { ...chain, hook: "type nat hook prerouting priority -90; policy accept;" });
  clock.advance(3_600_000);
  await backend.resync();
  assert.deepEqual(table().chains.get("nat-prerouting"), chain);
});

Deno.test("any comparison notices a deleted table and writes it again", async () => {
  const { snapshot, host, table, backend } = backendUnderTest();
  await snapshot(services(5));
  host.tables.delete(`ip ${TABLE}`);
  await backend.resync();
  assert.equal(table().sets.get("services")!.elements.size, 5);
});

Deno.test("a change that fails because of drift is repeated after a comparison", async () => {
  const { snapshot, change, host, table } = backendUnderTest();
  await snapshot(services(3));
  host.tables.delete(`ip ${TABLE}`);
  assert.deepEqual((await change([service(4)], ["default/s0:p|tcp"])).problems, []);
  assert.equal(table().sets.get("services")!.elements.size, 3);
});

/** A backend whose nft prints rules in another spelling, and the drift that a comparison a day later repairs. */
function backendWithSpelling(spell: (line: string) => string) {
  const host = createFakeNftHost();
  const { runner, transactions } = host;
  const spelled = {
    run: (call: Parameters<typeof runner.run>[0]) =>
      runner.run({ ...call, onLine: call.onLine && ((line) => call.onLine!(spell(line))) }),
  };
  const { snapshot, backend, clock } = backendUnderTest({ ...host, runner: spelled, transactions });
  const drifts = async (comparisons: number) => {
    const repaired: unknown[] = [];
    for (let i = 0; i < comparisons; i++) {
      clock.advance(DAY_MS);
      repaired.push((await backend.resync()).counts["drift_repaired"]);
    }
    return repaired;
  };
  return { snapshot, backend, transactions, drifts };
}

Deno.test("a table that another program has made dormant is created again, and no other one is", async () => {
  let flags = "\tflags owner";
  const host = createFakeNftHost(), { runner } = host;
  const run: typeof runner.run = ({ onLine, ...call }) => {
    if (onLine === undefined) return runner.run(call);
    return runner.run({
      ...call,
      onLine(line) {
        onLine(line);
        if (line.startsWith("table ip ")) onLine(flags);
      },
    });
  };
  const { snapshot, backend, clock } = backendUnderTest({ ...host, runner: { run } });
  await snapshot(services(2));
  const compare = async () => {
    host.transactions.length = 0;
    clock.advance(DAY_MS);
    await backend.resync();
    return host.transactions.flat();
  };
  assert.deepEqual(await compare(), []);
  flags = "\tflags owner,dormant";
  const written = await compare();
  assert.deepEqual(written.slice(0, 3), ["add table ip sluice", "delete table ip sluice", "add table ip sluice"]);
  assert.equal(host.tables.get(`ip ${TABLE}`)!.sets.get("services")!.elements.size, 2);
});

Deno.test("a chain that this nft prints differently is rewritten four times and not by every comparison", async () => {
  const { snapshot, transactions, drifts } = backendWithSpelling((line) =>
    line.replace("masquerade fully-random", "masquerade random")
  );
  await snapshot(services(2));
  const afterStart = transactions.length;
  assert.deepEqual(await drifts(6), [0, 0, 0, 0, 0, 0]);
  assert.equal(transactions.slice(afterStart).length, 4);
});

Deno.test("the chains of a limited node port that this nft prints differently are no drift", async () => {
  const { snapshot, drifts } = backendWithSpelling((line) =>
    line.replace("daddr 192.0.2.0/24", "daddr 192.0.2.0-192.0.2.255")
  );
  const limited = { nodePort: 30001, nodePortPrefixes: ["192.0.2.0/24"] };
  const refusing = { clusterEndpoints: [], internal: "reject", external: "reject" } as const;
  await snapshot([service(1, limited), service(2, { ...limited, ...refusing, nodePort: 30002 })]);
  assert.deepEqual(await drifts(4), [0, 0, 0, 0]);
});

Deno.test("a changed chain that this nft prints as it did before is no drift", async () => {
  const { snapshot, backend, drifts } = backendWithSpelling((line) => line.replace(/0x0000(4000|0080)/g, "0x1"));
  await snapshot(services(2));
  assert.deepEqual(await drifts(2), [0, 0]);
  const settings = nftSettings({ masqueradeMark: 0x80 });
  await backend.sync({ revision: 2, base: 1, settings, set: [], deleted: [] });
  assert.deepEqual(await drifts(3), [0, 0, 0]);
});

Deno.test("a chain that another program keeps changing is repaired each time", async () => {
  const { snapshot, table, backend, clock } = backendUnderTest();
  await snapshot(services(2));
  const rules = table().chains.get("services")!.rules;
  for (const vandalized of [[], ["drop"], [], ["drop"], rules.map(() => "drop"), rules.map(() => "drop")]) {
    table().chains.get("services")!.rules = vandalized;
    clock.advance(DAY_MS);
    assert.equal((await backend.resync()).counts["drift_repaired"], 1);
    assert.deepEqual(table().chains.get("services")!.rules, rules);
  }
});

Deno.test("repairs that nft reports but does not carry out are repeated by later comparisons", async () => {
  const host = createFakeNftHost(), { run } = host.runner;
  let isLost = false;
  Object.assign(host, {
    runner: {
      run: (call: Parameters<typeof run>[0]) =>
        call.stdin !== undefined && isLost ? Promise.resolve({ exitCode: 0, stdout: "", stderr: "" }) : run(call),
    },
  });
  const { snapshot, table, backend, clock } = backendUnderTest(host);
  await snapshot(services(2));
  const rules = table().chains.get("services")!.rules, vandalized = rules.map(() => "drop");
  for (let round = 0; round < 4; round++) {
    table().chains.get("services")!.rules = vandalized;
    for (const found of [vandalized, vandalized, vandalized, rules]) {
      isLost = found === vandalized;
      if (found === rules && round % 2 === 0) table().chains.get("services")!.rules = rules;
      clock.advance(DAY_MS);
      await backend.resync();
      assert.deepEqual(table().chains.get("services")!.rules, found);
    }
  }
});

Deno.test("new settings reach all chains that depend on them", async () => {
  const { snapshot, backend, table } = backendUnderTest();
  await snapshot([
    service(1, { external: "cluster", nodePort: 30001 }),
    service(2, { external: "cluster", nodePort: 30002, affinitySeconds: 9 }),
  ]);
  const settings = nftSettings({ masqueradeMark: 0x80 });
  await backend.sync({ revision: 2, base: 1, settings, set: [], deleted: [] });
  const rules = [...table().chains.values()].flatMap(({ rules }) => rules);
  assert.ok(rules.some((rule) => rule.includes("0x00000080")));
  assert.ok(!rules.some((rule) => rule.includes("0x00004000")));
  const fresh = backendUnderTest();
  await fresh.snapshot([
    service(1, { external: "cluster", nodePort: 30001 }),
    service(2, { external: "cluster", nodePort: 30002, affinitySeconds: 9 }),
  ], settings);
  assert.deepEqual(new Map([...table().chains].sort()), new Map([...fresh.table().chains].sort()));
});

Deno.test("cleanup removes only the tables of Sluice and kube-proxy", async () => {
  const { snapshot, host, backend } = backendUnderTest();
  for (const name of ["ip kube-proxy", "ip mine", "ip6 sluice"]) {
    host.tables.set(name, { sets: new Map(), chains: new Map(), counters: new Map() });
  }
  await snapshot(services(2));
  await backend.cleanup();
  assert.deepEqual([...host.tables.keys()], ["ip mine", "ip6 sluice"]);
  await backend.cleanup();
});

Deno.test("the error for an unsupported host names the missing feature and an alternative", async () => {
  const { host, backend } = backendUnderTest();
  host.refuses = (statement) => statement.includes("numgen") ? "syntax error, unexpected numgen" : undefined;
  await assert.rejects(backend.setup(), (error) => {
    assert.ok(error instanceof UnsupportedHostError);
    assert.match(error.message, /needs Linux 5\.13.*unexpected numgen.*iptables/);
    return true;
  });
  host.refuses = () => undefined;
  await backend.setup();
  assert.deepEqual([...host.tables.keys()], []);
});

Deno.test("a hanging nft is killed after the minute that docs/reliability.md documents", async () => {
  const timeouts = new Map<string, number | undefined>();
  const runner: Runner = {
    async run({ args, timeoutMs, onLine }) {
      await Promise.resolve();
      timeouts.set(args.join(" "), timeoutMs);
      for (const line of ["table ip sluice {", "}"]) onLine?.(line);
      return { exitCode: 0, stdout: "", stderr: "" };
    },
  };
  const tools = createNftTools("IPv4", runner);
  await tools.transact({ table: "replace", deleted: new Map(), added: new Map() });
  await tools.readTable();
  assert.deepEqual([...timeouts], [["-f -", 60_000], ["list table ip sluice", 180_000]]);
});
