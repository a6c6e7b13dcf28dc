import assert from "node:assert/strict";
import type { Problem } from "../../../core/problems/mod.ts";
import { createServiceHealth, type ServiceHealth } from "../../../observe/mod.ts";
import type { HealthCheck } from "../../../core/planning/mod.ts";
import type { Family } from "../../../platform/address.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { ask, isClosed } from "./http_client.ts";

/** A health check of `default/NAME`, an IPv4 service. */
function check(name: string, port: number, count: number): HealthCheck {
  return { namespace: "default", name, port, localReadyEndpoints: { IPv4: count } };
}

/** Health checks whose ports are mapped to free ports of the loopback interface; `where` returns the real one. */
async function withHealth(
  test: (t: ReturnType<typeof setUp>) => Promise<void>,
): Promise<void> {
  const t = setUp();
  try {
    await test(t);
  } finally {
    t.stop.abort();
  }
}

function setUp() {
  const clock = createFakeClock(), stop = new AbortController();
  const opened: string[] = [], real = new Map<string, string>(), taken = new Set<string>();
  const node: { healthy: boolean; addresses: string[] | undefined } = { healthy: true, addresses: ["192.0.2.1"] };
  const failures: string[] = [];
  let problems: readonly Problem[] = [];
  const created = createServiceHealth({
    addresses: () => node.addresses,
    isHealthy: () => node.healthy,
    clock,
    logger: silentLogger,
    signal: stop.signal,
    mostListeners: 4,
    onProblems(_scope, reported) {
      problems = reported;
    },
    onFailure: (service, port, why) => failures.push(`${service} ${port}: ${why}`),
    open({ hostname, port }) {
      const key = `${hostname} ${port}`;
      if (taken.has(key)) throw new Deno.errors.AddrInUse("Address already in use (os error 98)");
      opened.push(key);
      const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      real.set(key, `127.0.0.1:${listener.addr.port}`);
      return listener;
    },
  });
  // Most tests assume that all rules are in effect immediately.
  const health: ServiceHealth = {
    ...created,
    apply(changes) {
      created.apply(changes);
      const counts = changes.set.map((one) => [`default/${one.name}`, one.localReadyEndpoints.IPv4 ?? 0] as const);
      created.inEffect("IPv4", new Map(counts));
    },
  };
  const where = (key: string) => real.get(key) ?? assert.fail(`${key} was never opened`);
  return { health, created, failures, problems: () => problems, node, clock, stop, opened, taken, where };
}

Deno.test("a service with local endpoints gets kube-proxy's response, byte for byte", () =>
  withHealth(async ({ health, where }) => {
    health.apply({ set: [check("web", 32000, 2)], deleted: [] });
    const { status, headers, body } = await ask(where("192.0.2.1 32000"), "/any/path");
    assert.equal(status, 200);
    assert.equal(headers.get("Content-Type"), "application/json");
    assert.equal(headers.get("X-Content-Type-Options"), "nosniff");
    assert.equal(headers.get("X-Load-Balancing-Endpoint-Weight"), "2");
    assert.equal(
      body,
      '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}',
    );
  }));

Deno.test("without health checks, the host's addresses are not read", () => {
  let reads = 0;
  const stop = new AbortController();
  const health = createServiceHealth({
    addresses: () => {
      reads++;
      return ["192.0.2.1"];
    },
    isHealthy: () => true,
    clock: createFakeClock(),
    logger: silentLogger,
    signal: stop.signal,
    onProblems() {},
    open: () => Deno.listen({ hostname: "127.0.0.1", port: 0 }),
  });
  health.apply({ set: [], deleted: [] });
  assert.equal(reads, 0);
  health.apply({ set: [check("web", 32000, 1)], deleted: [] });
  assert.equal(reads, 1);
  health.apply({ set: [], deleted: ["default/web"] });
  assert.equal(reads, 1, "the last service was deleted");
  stop.abort();
});

Deno.test("once the last local endpoint is gone, the same port answers 503 with a weight of 0", () =>
  withHealth(async ({ health, opened, where }) => {
    health.apply({ set: [check("web", 32000, 2)], deleted: [] });
    health.apply({ set: [check("web", 32000, 0)], deleted: [] });
    const { status, headers, body } = await ask(where("192.0.2.1 32000"));
    assert.equal(status, 503);
    assert.equal(headers.get("X-Load-Balancing-Endpoint-Weight"), "0");
    assert.match(body, /"localEndpoints": 0,/);
    assert.deepEqual(opened, ["192.0.2.1 32000"], "it was never closed");
  }));

Deno.test("an overdue proxy gets no traffic, whatever its endpoints", () =>
  withHealth(async ({ health, node, where }) => {
    health.apply({ set: [check("web", 32000, 2)], deleted: [] });
    node.healthy = false;
    const { status, headers, body } = await ask(where("192.0.2.1 32000"));
    assert.equal(status, 503);
    assert.equal(headers.get("X-Load-Balancing-Endpoint-Weight"), "2");
    assert.match(body, /"serviceProxyHealthy": false/);
  }));

Deno.test("the port of a deleted or moved service is closed", () =>
  withHealth(async ({ health, where }) => {
    health.apply({ set: [check("web", 32000, 1), check("api", 32001, 1)], deleted: [] });
    health.apply({ set: [check("api", 32002, 1)], deleted: ["default/web"] });
    await isClosed(where("192.0.2.1 32000"));
    await isClosed(where("192.0.2.1 32001"));
    assert.match((await ask(where("192.0.2.1 32002"))).body, /"name": "api"/);
    health.apply({ set: [check("web", 32000, 1)], deleted: [] });
    assert.match((await ask(where("192.0.2.1 32000"))).body, /"name": "web"/);
  }));

Deno.test("ports move and swap between services without being closed", () =>
  withHealth(async ({ problems, health, opened, where }) => {
    health.apply({ set: [check("a", 32000, 1), check("b", 32001, 1)], deleted: [] });
    health.apply({ set: [check("a", 32001, 1), check("b", 32000, 1)], deleted: [] });
    assert.match((await ask(where("192.0.2.1 32000"))).body, /"name": "b"/);
    health.apply({ set: [check("c", 32000, 1)], deleted: ["default/b"] });
    assert.match((await ask(where("192.0.2.1 32000"))).body, /"name": "c"/);
    assert.match((await ask(where("192.0.2.1 32001"))).body, /"name": "a"/);
    assert.equal(opened.length, 2);
    assert.deepEqual(problems(), []);
  }));

Deno.test("if two services request one port, the first is served and the second reported until the port is free", () =>
  withHealth(async ({ problems, health, where }) => {
    health.apply({ set: [check("first", 32000, 1)], deleted: [] });
    health.apply({ set: [check("second", 32000, 3)], deleted: [] });
    assert.match((await ask(where("192.0.2.1 32000"))).body, /"name": "first"/);
    assert.deepEqual(problems(), [{
      code: "health-check-port-closed",
      subject: "Service default/second",
      detail: "port 32000: Service default/first has the same one",
    }]);
    health.apply({ set: [], deleted: ["default/first"] });
    assert.match((await ask(where("192.0.2.1 32000"))).body, /"name": "second"/);
    assert.deepEqual(problems(), []);
  }));

Deno.test("a port used by another program is a problem of its service only, and is retried automatically", () =>
  withHealth(async ({ problems, health, clock, taken, where }) => {
    taken.add("192.0.2.1 32000");
    health.apply({ set: [check("web", 32000, 1), check("api", 32001, 1)], deleted: [] });
    health.apply({ set: [], deleted: [] });
    assert.deepEqual(clock.pending(), [5_000], "one retry is scheduled, however many updates request the port");
    assert.match((await ask(where("192.0.2.1 32001"))).body, /"name": "api"/);
    assert.deepEqual(problems(), [{
      code: "health-check-port-closed",
      subject: "Service default/web",
      detail: "port 32000: cannot listen on 192.0.2.1: Address already in use",
    }]);
    taken.clear();
    clock.advance(5_000);
    assert.match((await ask(where("192.0.2.1 32000"))).body, /"name": "web"/);
    assert.deepEqual(problems(), []);
  }));

Deno.test("a deleted service leaves no problem and no retry", () =>
  withHealth(async ({ problems, health, clock, taken, opened }) => {
    taken.add("192.0.2.1 32000");
    health.apply({ set: [check("web", 32000, 1)], deleted: [] });
    health.apply({ set: [], deleted: ["default/web"] });
    taken.clear();
    await clock.advanceSettled(60_000);
    assert.deepEqual(problems(), []);
    assert.deepEqual(opened, []);
  }));

Deno.test("without selected addresses, or if none is found, all host addresses are listened on", () =>
  withHealth(async ({ health, node, opened, where }) => {
    node.addresses = undefined;
    health.apply({ set: [check("web", 32000, 1)], deleted: [] });
    assert.equal(opened[0], ":: 32000");
    assert.equal((await ask(where(":: 32000"))).status, 200);
    const before = opened.length;
    node.addresses = [];
    health.apply({ set: [], deleted: [] });
    assert.equal(opened.length, before);
  }));

Deno.test("when the node's addresses change, ports are opened on new addresses and closed on old ones", () =>
  withHealth(async ({ health, node, opened, where }) => {
    node.addresses = ["192.0.2.1", "2001:db8::1"];
    health.apply({ set: [check("web", 32000, 1)], deleted: [] });
    node.addresses = ["2001:db8::1", "192.0.2.2"];
    health.apply({ set: [], deleted: [] });
    assert.deepEqual(opened, ["192.0.2.1 32000", "2001:db8::1 32000", "192.0.2.2 32000"]);
    await isClosed(where("192.0.2.1 32000"));
    assert.equal((await ask(where("2001:db8::1 32000"))).status, 200);
    assert.equal((await ask(where("192.0.2.2 32000"))).status, 200);
  }));

Deno.test("the signal closes all listeners, and none is opened after it", async () => {
  const { health, stop, clock, taken, opened, where } = setUp();
  taken.add("192.0.2.1 32001");
  health.apply({ set: [check("web", 32000, 1), check("api", 32001, 1)], deleted: [] });
  stop.abort();
  assert.deepEqual(clock.pending(), []);
  await isClosed(where("192.0.2.1 32000"));
  health.apply({ set: [check("late", 32002, 1)], deleted: [] });
  taken.clear();
  await clock.advanceSettled(60_000);
  assert.deepEqual(opened, ["192.0.2.1 32000"]);
});

Deno.test("endpoints count once their rules are in effect, and only while they are wanted", () =>
  withHealth(async ({ created, where }) => {
    const answered = async () => {
      const { status, headers } = await ask(where("192.0.2.1 32000"));
      return [status, headers.get("X-Load-Balancing-Endpoint-Weight")];
    };
    const inEffect = (count: number) => created.inEffect("IPv4", new Map([["default/web", count]]));
    created.apply({ set: [check("web", 32000, 2)], deleted: [] });
    assert.deepEqual(await answered(), [503, "0"], "planned");
    inEffect(2);
    assert.deepEqual(await answered(), [200, "2"], "in effect");
    created.apply({ set: [check("web", 32000, 3)], deleted: [] });
    assert.deepEqual(await answered(), [200, "2"], "the third is not in effect");
    created.apply({ set: [check("web", 32000, 0)], deleted: [] });
    assert.deepEqual(await answered(), [503, "0"], "none is wanted any more");
    inEffect(0);
    created.apply({ set: [check("web", 32000, 1)], deleted: [] });
    assert.deepEqual(await answered(), [503, "0"], "the new one is not in effect yet");
  }));

Deno.test("endpoints in effect for a deleted service do not count for a later one of the same name", () =>
  withHealth(async ({ health, created, where }) => {
    health.apply({ set: [check("web", 32000, 2)], deleted: [] });
    created.apply({ set: [], deleted: ["default/web"] });
    created.inEffect("IPv4", new Map([["default/web", 2]]));
    created.apply({ set: [check("web", 32000, 2)], deleted: [] });
    assert.equal((await ask(where("192.0.2.1 32000"))).status, 503);
  }));

Deno.test("an IPv4 check counts IPv4 endpoints; for an IPv6-only service it counts IPv6 endpoints", () =>
  withHealth(async ({ created, where }) => {
    const weight = async (port: number) =>
      (await ask(where(`192.0.2.1 ${port}`))).headers.get("X-Load-Balancing-Endpoint-Weight");
    const inEffect = (family: Family, count: number) =>
      created.inEffect(family, new Map([["default/web", count], ["default/only6", count]]));
    const counts = (IPv4: number, IPv6: number) => ({ ...check("web", 32000, 0), localReadyEndpoints: { IPv4, IPv6 } });
    const only6 = { ...check("only6", 32001, 0), localReadyEndpoints: { IPv6: 3 } };
    created.apply({ set: [counts(0, 3), only6], deleted: [] });
    inEffect("IPv4", 0);
    inEffect("IPv6", 3);
    assert.deepEqual([await weight(32000), await weight(32001)], ["0", "3"]);
    created.apply({ set: [counts(1, 3)], deleted: [] });
    inEffect("IPv4", 1);
    assert.equal(await weight(32000), "1");
  }));

Deno.test("ports beyond the share of open files are problems of their services, and opened when there is room", () =>
  withHealth(async ({ problems, health, failures, clock, where }) => {
    const all = [1, 2, 3, 4, 5].map((n) => check(`s${n}`, 32000 + n, 1));
    health.apply({ set: all, deleted: [] });
    const why = "the limit of open files leaves room for 4 listeners, and they are in use";
    assert.deepEqual(failures, [`default/s5 32005: ${why}`]);
    clock.advance(20_000);
    assert.equal(failures.length, 1, "the same failure is reported once");
    assert.equal((await ask(where("192.0.2.1 32004"))).status, 200);
    health.apply({ set: [], deleted: ["default/s1"] });
    clock.advance(5_000);
    assert.equal((await ask(where("192.0.2.1 32005"))).status, 200);
    assert.deepEqual(problems(), []);
  }));
