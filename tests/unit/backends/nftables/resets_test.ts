import assert from "node:assert/strict";
import type { Backend } from "../../../../backends/contract/backend.ts";
import { findMode, loadBackend } from "../../../../backends/registry.ts";
import { withResets } from "../../../../backends/nftables/resets.ts";
import { type ToolCall, ToolMissingError } from "../../../../backends/tools/mod.ts";
import { createNftablesBackend } from "../../../../backends/nftables/backend.ts";
import type { ServicePort } from "../../../../core/model/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { settled } from "../../../fakes/clock.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import type { PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { nftSettings } from "./host.ts";

const web = (...endpoints: readonly string[]) =>
  fakeServicePort("default/web", {
    clusterEndpoints: endpoints,
    internal: endpoints.length > 0 ? "cluster" : "reject",
  });
const ONE = "10.1.0.1:8080", TWO = "10.1.0.2:8080";
const CLUSTER = "10.96.0.10:80", NODE = "192.168.1.1:30080";
const IN_SET = "10.96.0.10 . 80 . 10.1.0.1 . 8080";

function underTest(host = createFakeNftHost(), isPossible = true) {
  const problems: string[] = [];
  let reports = 0;
  const options = {
    ...{ family: "IPv4", runner: host.runner, clock: host.clock, logger: silentLogger } as const,
    onProblems(_: string, list: readonly { readonly code: string; readonly detail: string }[]) {
      reports++;
      problems.splice(0, Infinity, ...list.map(({ code, detail }) => `${code}: ${detail}`));
    },
  };
  const backend = withResets(createNftablesBackend(options), options, isPossible) as Required<Backend>;
  let revision = 0;
  const sync = (...set: readonly ServicePort[]) => {
    const settings = revision === 0 ? nftSettings() : undefined, base = revision || undefined;
    return backend.sync({ revision: ++revision, base, settings, set, deleted: [] });
  };
  const gone = (endpoint: string, ...frontends: readonly string[]) =>
    backend.resetGone([{ namespace: "default", endpoint, frontends: frontends.length > 0 ? frontends : [CLUSTER] }]);
  const table = () => host.tables.get("ip sluice-resets");
  const elements = () => [...table()?.sets.get("connections")?.clients.keys() ?? []];
  return { host, backend, problems, reports: () => reports, sync, gone, table, elements };
}

/** A proxy that serves ONE and TWO, and resets the connections to ONE. */
async function resetting(host = createFakeNftHost()) {
  const tested = underTest(host);
  await tested.backend.setup();
  await tested.sync(web(ONE, TWO));
  await tested.gone(ONE);
  assert.deepEqual(tested.elements(), [IN_SET]);
  return tested;
}

/** Has every call that matches fail. */
function refuse({ runner }: ReturnType<typeof createFakeNftHost>, matches: (call: ToolCall) => boolean) {
  const { run } = runner;
  runner.run = (call) => matches(call) ? Promise.reject(new Error("interrupted")) : run(call);
  return () => void (runner.run = run);
}

Deno.test("of the packets to a dead endpoint, those through its frontends are rejected that neither begin nor end a connection", async () => {
  const { host, backend, sync, gone } = underTest();
  await sync(web(ONE));
  const from = (to: string, port: number) => ({ translatedFrom: { to, port } });
  const packet = { from: "pod-on-node", to: "10.1.0.1", port: 8080, state: "ESTABLISHED" } satisfies PacketRequest;
  const throughService = { ...packet, ...from("10.96.0.10", 80) };
  const verdict = (changes: Partial<PacketRequest> = {}) => host.send({ ...throughService, ...changes }).verdict;
  assert.equal(verdict(), "passed");
  await gone(ONE, CLUSTER, NODE);
  const table: readonly (readonly [string, Partial<PacketRequest>, "rejected" | "passed"])[] = [
    ["through the cluster IP", {}, "rejected"],
    ["of the node itself", { from: "node" }, "rejected"],
    ["through the node port", from("192.168.1.1", 30080), "rejected"],
    ["through a host port", from("192.168.1.1", 8443), "passed"],
    ["through another program's port at another address", from("203.0.113.9", 30080), "passed"],
    ["through another service", from("10.96.0.11", 80), "passed"],
    ["through another port of the service", from("10.96.0.10", 81), "passed"],
    ["to another port of the pod", { port: 8081 }, "passed"],
    ["to another pod", { to: "10.1.0.9" }, "passed"],
    ["the first packet of a connection", { state: "NEW", flags: ["syn"] }, "passed"],
    ["a SYN with the ports of an open connection", { flags: ["syn"] }, "passed"],
    ["the client's FIN", { flags: ["fin"] }, "passed"],
    ["the client's reset", { flags: ["rst"] }, "passed"],
    ["UDP", { protocol: "udp" }, "passed"],
  ];
  for (const [name, changes, expected] of table) assert.equal(verdict(changes), expected, name);
  assert.equal(host.send(packet).verdict, "passed", "to the pod's own address");
  assert.equal((await backend.resync()).counts["connections_reset"], 3);
  assert.equal((await backend.resync()).counts["connections_reset"], undefined);
});

Deno.test("an endpoint leaves the set before the sync that uses it again, and the table exists only while it has elements", async () => {
  const { host, backend, sync, gone, table, elements } = await resetting();
  await gone(TWO);
  assert.equal(elements().length, 2);
  // Comparisons keep both.
  assert.equal((await backend.resync()).counts["drift_repaired"], 0);
  assert.equal(elements().length, 2);
  await sync(web("10.1.0.3:8080"));
  const before = host.transactions.length;
  await sync(web(ONE));
  assert.match(host.transactions[before]!.join(), /delete element ip sluice-resets/);
  assert.deepEqual(elements(), ["10.96.0.10 . 80 . 10.1.0.2 . 8080"]);
  await sync(web(ONE, TWO));
  await backend.resync();
  assert.equal(table(), undefined);
});

Deno.test("an endpoint that dies while nft is busy, and is used again at once, is not reset", async () => {
  const { backend, sync, gone, table } = underTest();
  await backend.setup();
  await sync(web(TWO));
  const added = gone(ONE);
  await Promise.all([added, sync(web(ONE, TWO))]);
  assert.equal(table(), undefined, "nothing was written");
});

Deno.test("an endpoint that has died through two services leaves the set with both", async () => {
  const { sync, gone, elements } = await resetting();
  await gone(ONE, "10.96.0.11:80");
  assert.equal(elements().length, 2);
  await sync(web(ONE));
  assert.deepEqual(elements(), []);
});

Deno.test("an endpoint whose elements have expired is used again without a failure", async () => {
  const { sync, gone, table, elements, problems } = await resetting();
  await gone(TWO);
  table()!.sets.get("connections")!.clients.delete(IN_SET);
  await sync(web(ONE));
  assert.deepEqual([elements(), problems], [["10.96.0.10 . 80 . 10.1.0.2 . 8080"], []]);
});

Deno.test("a service of another protocol does not take an endpoint out of the set", async () => {
  const { sync, elements } = await resetting();
  await sync(fakeServicePort("default/dns", { protocol: "udp", clusterEndpoints: [ONE] }));
  assert.deepEqual(elements(), [IN_SET]);
});

Deno.test("elements live for five minutes, and the table until the next comparison", async () => {
  const { host, backend, table } = await resetting();
  const until = table()!.sets.get("connections")!.clients.get(IN_SET)!;
  assert.equal(until - host.clock.monotonic(), 300_000);
  host.clock.advance(300_000);
  await backend.resync();
  assert.ok(table() !== undefined, "the kernel may have got the element up to a minute later");
  host.clock.advance(60_000);
  await backend.resync();
  assert.equal(table(), undefined);
});

Deno.test("a reset that is being written when the proxy stops leaves no table", async () => {
  const host = createFakeNftHost(), { converse } = host.runner, held = Promise.withResolvers<void>();
  host.runner.converse = (call) => {
    const conversation = converse!(call);
    return {
      ...conversation,
      async ask(...question) {
        if (question[0].includes("sluice-resets")) await held.promise;
        return await conversation.ask(...question);
      },
    };
  };
  const { backend, sync, gone, table } = underTest(host);
  await backend.setup();
  await sync(web(TWO));
  const written = gone(ONE);
  await settled();
  const stopped = backend.stop();
  held.resolve();
  await Promise.all([stopped, written]);
  assert.equal(table(), undefined);
});

for (const isPossible of [true, false]) {
  Deno.test(`a table that an earlier proxy has left is removed at the start, ${isPossible ? "before it resets others" : "also in other modes"}`, async () => {
    const { host } = await resetting();
    const { backend, sync, gone, table } = underTest(host, isPossible);
    await backend.setup();
    assert.equal(table(), undefined);
    await sync(web(TWO));
    await gone(ONE);
    assert.equal(table() !== undefined, isPossible);
  });
}

Deno.test("a table that cannot be removed at the start is removed before the first sync", async () => {
  const { host } = await resetting(),
    restore = refuse(host, ({ stdin = [] }) => [...stdin].join("").includes("resets"));
  const { backend, sync, problems, table } = underTest(host);
  await backend.setup();
  assert.match(problems.join(), /connections-not-reset: interrupted/);
  restore();
  await sync(web(ONE));
  assert.deepEqual([table(), problems], [undefined, []]);
});

Deno.test("the end of the proxy removes the table, and nothing is added any more", async () => {
  const { backend, gone, table } = await resetting();
  const late = gone(TWO);
  await backend.stop();
  await late;
  await gone(TWO);
  assert.equal(table(), undefined);
});

Deno.test("a cleanup removes the table, and fails if that fails", async () => {
  const first = await resetting(), second = await resetting();
  await first.backend.cleanup();
  assert.equal(first.table(), undefined);
  assert.deepEqual(first.problems, []);
  const third = await resetting();
  // Still being added when the cleanup begins.
  const added = third.gone(TWO);
  await third.backend.cleanup();
  await added;
  assert.equal(third.table(), undefined);
  second.host.refuses = (statement) => statement === "delete table ip sluice-resets" ? "Device busy" : undefined;
  await assert.rejects(second.backend.cleanup(), /Device busy/);
});

Deno.test("a failure is a problem that delays no sync, and ends all resets", async () => {
  const { host, sync, gone, table, problems, reports } = await resetting();
  assert.equal(reports(), 0, "a success sends no report");
  host.refuses = (statement) => statement.includes("sluice-resets") ? "Device busy" : undefined;
  assert.deepEqual((await sync(web(ONE, TWO))).problems, []);
  assert.match(problems.join(), /connections-not-reset: .*Device busy/);
  host.refuses = () => undefined;
  await sync();
  assert.deepEqual([table(), problems], [undefined, []]);
  await gone(TWO);
  assert.notEqual(table(), undefined);
});

Deno.test("if nft fails after it has added an endpoint, the table is removed before a sync uses the endpoint", async () => {
  const { host, sync, gone, table } = underTest();
  await sync(web(TWO));
  const { run, converse } = host.runner;
  host.runner.converse = undefined as never;
  host.runner.run = async (call) => ({ ...await run(call), exitCode: 137 });
  await gone(ONE);
  Object.assign(host.runner, { run, converse });
  await sync(web(ONE, TWO));
  assert.equal(table(), undefined);
});

Deno.test("after another program has removed the table, it is created again", async () => {
  const { host, backend, sync, gone, elements, problems } = await resetting();
  host.tables.delete("ip sluice-resets");
  await backend.resync();
  await gone(TWO);
  assert.deepEqual(elements(), ["10.96.0.10 . 80 . 10.1.0.2 . 8080"]);
  host.tables.delete("ip sluice-resets");
  await sync(web(ONE, TWO));
  assert.deepEqual([elements(), problems], [[], []]);
});

const LOSSES: readonly (readonly [string, (tested: Awaited<ReturnType<typeof resetting>>) => Promise<unknown>])[] = [
  ["another program has removed the table", ({ host, backend }) => {
    host.tables.delete("ip sluice-resets");
    return backend.resync();
  }],
  ["a write has failed", async ({ host, sync, gone }) => {
    host.refuses = (statement) => statement.startsWith("add element ip sluice-resets") ? "Device busy" : undefined;
    await gone(TWO);
    host.refuses = () => undefined;
    await sync();
  }],
];

for (const [name, lose] of LOSSES) {
  Deno.test(`once ${name}, the earlier resets keep no later table`, async () => {
    const tested = await resetting();
    await lose(tested);
    await tested.gone(TWO);
    assert.deepEqual(tested.elements(), ["10.96.0.10 . 80 . 10.1.0.2 . 8080"]);
    await tested.sync(web(TWO));
    await tested.backend.resync();
    assert.equal(tested.table(), undefined);
  });
}

Deno.test("the long-running nft adds up to 1,000 elements, and a process of its own adds more", async () => {
  for (const count of [1_000, 1_001]) {
    const { host, backend, sync, elements } = underTest();
    await backend.setup();
    await sync(web(TWO));
    const { converse } = host.runner;
    let asked = 0;
    host.runner.converse = (call) => {
      const conversation = converse!(call);
      return {
        ...conversation,
        ask(...question) {
          if (question[0].includes("add element ip sluice-resets")) asked++;
          return conversation.ask(...question);
        },
      };
    };
    const frontends = Array.from({ length: count }, (_, i) => `10.97.${i >> 8}.${i & 255}:80`);
    await backend.resetGone([{ namespace: "default", endpoint: ONE, frontends }]);
    assert.deepEqual([elements().length, asked], [count, count > 1_000 ? 0 : 1]);
  }
});

for (const end of ["stop", "cleanup"] as const) {
  Deno.test(`after ${end}, no further conntrack entry is deleted`, async () => {
    const host = createFakeNftHost();
    host.hasFlowTable = true;
    const { run } = host.runner, deletions: string[] = [], begun = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    for (const port of [80, 81, 82]) {
      host.conntrack.push({
        ...{ protocol: "tcp", source: "10.9.0.1", sourcePort: 1, destination: "10.96.0.10", destinationPort: port },
        answeredBy: { address: "10.1.0.1", port: 8080 },
      });
    }
    host.runner.run = async (call) => {
      if (call.tool === "conntrack" && !call.args.includes("-L")) {
        deletions.push([...call.args, ...call.stdin ?? []].join(" "));
        begun.resolve();
        await held.promise;
      }
      return await run(call);
    };
    const { backend, sync, gone } = underTest(host);
    await backend.setup();
    await sync(web(TWO));
    await gone(ONE, CLUSTER, "10.96.0.10:81", "10.96.0.10:82");
    await begun.promise;
    await backend[end]();
    held.resolve();
    for (let i = 0; i < 20; i++) await settled();
    assert.equal(deletions.length, 1);
  });
}

Deno.test("a change costs nothing while nothing is reset", async () => {
  const { host, backend, sync } = underTest();
  await backend.setup();
  await sync(web(ONE));
  const calls: string[] = [], { run } = host.runner;
  host.runner.run = (call) => {
    calls.push([call.tool, ...call.args, ...call.stdin ?? []].join(" "));
    return run(call);
  };
  await sync(web(TWO));
  await backend.resync();
  assert.deepEqual(calls.filter((call) => call.includes("resets") || call.includes("flowtables")), []);
});

Deno.test("beside a flow table, whose packets skip the rule, the conntrack entries of exactly these connections are deleted", async () => {
  for (const hasFlowTable of [false, true]) {
    const host = createFakeNftHost();
    const add = (destination: string, address: string, port = 8080) =>
      host.conntrack.push({
        ...{ protocol: "tcp", source: "10.9.0.1", sourcePort: 1, destination, destinationPort: 80 },
        answeredBy: { address, port },
      });
    add("10.96.0.10", "10.1.0.1");
    add("10.96.0.10", "10.1.0.1", 8081);
    add("10.96.0.11", "10.1.0.1");
    add("10.96.0.10", "10.1.0.2");
    host.hasFlowTable = hasFlowTable;
    await resetting(host);
    await settled();
    assert.equal(host.conntrack.length, hasFlowTable ? 3 : 4);
    assert.equal(host.conntrack.some((one) => one.destination === "10.96.0.10" && one.answeredBy?.port === 8081), true);
  }
});

Deno.test("entries of an endpoint that is used again are not deleted, and its sync waits for a deletion that has begun", async () => {
  const host = createFakeNftHost();
  host.hasFlowTable = true;
  const { run } = host.runner, deletions: string[] = [], begun: (() => void)[] = [];
  host.runner.run = async (call) => {
    if (call.tool !== "conntrack") return await run(call);
    deletions.push(/-r (\S+)/.exec([...call.stdin!].join(""))![1]!);
    await new Promise<void>((resolve) => begun.push(resolve));
    return await run(call);
  };
  const { sync, gone } = await resetting(host);
  await gone(TWO);
  const order: string[] = [];
  const synced = sync(web(ONE, TWO)).then(() => order.push("synced"));
  await settled();
  order.push("deleted");
  begun.shift()!();
  await synced;
  await settled();
  assert.deepEqual([order, deletions], [["deleted", "synced"], ["10.1.0.1"]]);
});

Deno.test("a deletion is stopped for a sync that uses its endpoint again, which is no problem", async () => {
  const host = createFakeNftHost();
  host.hasFlowTable = true;
  const { run } = host.runner;
  host.runner.run = (call) =>
    call.tool !== "conntrack" ? run(call) : new Promise((_, reject) => {
      call.signal!.addEventListener("abort", () => reject(call.signal!.reason));
    });
  const { sync, problems, reports } = await resetting(host);
  await sync(web(ONE, TWO));
  assert.deepEqual([problems, reports()], [[], 0]);
});

Deno.test("a flow table that appears later is noticed at the next comparison", async () => {
  const host = createFakeNftHost(), { backend, gone } = await resetting(host);
  host.conntrack.push({
    ...{ protocol: "tcp", source: "10.9.0.1", sourcePort: 1, destination: "10.96.0.10", destinationPort: 80 },
    answeredBy: { address: "10.1.0.2", port: 8080 },
  });
  host.hasFlowTable = true;
  await backend.resync();
  await gone(TWO);
  await settled();
  assert.equal(host.conntrack.length, 0);
});

Deno.test("the packets that each table counts add up", async () => {
  const { host, backend, sync, gone } = await resetting();
  const send = () =>
    host.send({
      ...{ from: "pod-on-node", to: "10.1.0.1", port: 8080, state: "ESTABLISHED" },
      translatedFrom: { to: "10.96.0.10", port: 80 },
    });
  const counted = async () => (await backend.resync()).counts["connections_reset"];
  send();
  send();
  assert.equal(await counted(), 2);
  await sync(web(ONE));
  await backend.resync();
  await sync(web(TWO));
  await gone(ONE);
  send();
  assert.equal(await counted(), 1);
  // Another program removes the table, and the next one begins at 0.
  host.tables.delete("ip sluice-resets");
  assert.equal(await counted(), undefined);
  await gone(ONE);
  send();
  send();
  assert.equal(await counted(), 2);
});

Deno.test("a failure to delete conntrack entries is a problem, and is not repeated", async () => {
  const host = createFakeNftHost();
  host.hasFlowTable = true;
  const { run } = host.runner;
  let calls = 0;
  host.runner.run = (call) => {
    if (call.tool !== "conntrack") return run(call);
    calls++;
    return Promise.reject(new ToolMissingError("conntrack"));
  };
  const { sync, problems, elements } = await resetting(host);
  await settled();
  assert.match(problems.join(), /connections-not-reset: those in a flow table: conntrack is not installed/);
  await sync(web(TWO));
  assert.deepEqual([calls, elements()], [1, [IN_SET]]);
});

Deno.test("of many pairs, only those with connections are deleted, those of another namespace in turn", async () => {
  const host = createFakeNftHost();
  host.hasFlowTable = true;
  const add = (destination: string, address: string) =>
    host.conntrack.push({
      ...{ protocol: "tcp", source: "10.9.0.1", sourcePort: 1, destination, destinationPort: 80 },
      answeredBy: { address, port: 8080 },
    });
  const frontends = Array.from({ length: 100 }, (_, i) => `10.97.0.${i}`);
  for (const frontend of frontends.slice(0, 10)) add(frontend, "10.1.0.1");
  add("10.96.0.10", "10.1.0.2");
  const calls: string[] = [], { run } = host.runner;
  host.runner.run = (call) => {
    if (call.tool === "conntrack") calls.push([...call.args, ...call.stdin ?? []].join(" "));
    // Each run takes long, so that the first pass ends after three deletions.
    if (call.tool === "conntrack") host.clock.advance(2_000);
    return run(call);
  };
  const { backend, sync } = underTest(host);
  await sync(web("10.1.0.3:8080"));
  await backend.resetGone([
    { namespace: "tenant", endpoint: ONE, frontends: frontends.map((frontend) => `${frontend}:80`) },
    { namespace: "default", endpoint: TWO, frontends: [CLUSTER] },
  ]);
  for (let i = 0; i < 50; i++) await settled();
  assert.deepEqual(host.conntrack, []);
  const deletions = calls.filter((call) => call.includes("-D ")), first = deletions.slice(0, 2).join();
  assert.equal(deletions.length, 11);
  assert.match(first, /10\.96\.0\.10/);
  assert.ok(
    calls.findLastIndex((call) => call.startsWith("-L")) > 3,
    "what has come meanwhile is listed after some time",
  );
});

Deno.test("a host without nft resets nothing, which is no problem", async () => {
  const host = createFakeNftHost(), problems: unknown[] = [];
  let calls = 0;
  const runner = {
    run() {
      calls++;
      return Promise.reject(new ToolMissingError("nft"));
    },
  };
  const backend = { sync: () => Promise.resolve({ problems: [], counts: {} }) } as unknown as Backend;
  const options = { family: "IPv4", runner, clock: host.clock, logger: silentLogger } as const;
  const tested = withResets(backend, { ...options, onProblems: (_, list) => problems.push(...list) }, true);
  for (const revision of [1, 2]) {
    await tested.sync({ revision, base: undefined, settings: nftSettings(), set: [web(ONE)], deleted: [] });
    await tested.resetGone!([{ namespace: "default", endpoint: TWO, frontends: [CLUSTER] }]);
  }
  assert.deepEqual([calls, problems], [1, []]);
});

Deno.test("connections are reset in the modes that say so, and in no other", async () => {
  const nftables = findMode("nftables");
  for (const resetsConnections of [true, undefined] as const) {
    const host = createFakeNftHost(), { description } = nftables;
    const mode = {
      ...nftables,
      description: { ...description, settings: { ...description.settings, resetsConnections } },
    };
    const { runner, clock } = host;
    const backend = await loadBackend("nftables", { family: "IPv4", runner, clock, logger: silentLogger }, [mode]);
    await backend.setup();
    await backend.sync({ revision: 1, base: undefined, settings: nftSettings(), set: [web(TWO)], deleted: [] });
    await backend.resetGone!([{ namespace: "default", endpoint: ONE, frontends: [CLUSTER] }]);
    assert.equal(host.tables.get("ip sluice-resets") !== undefined, resetsConnections === true);
    await backend.cleanup();
  }
});
