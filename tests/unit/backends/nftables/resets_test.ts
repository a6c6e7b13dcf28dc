import assert from "node:assert/strict";
import type { Backend } from "../../../../backends/contract/backend.ts";
import { withResets } from "../../../../backends/nftables/resets.ts";
import { ToolMissingError } from "../../../../backends/tools/mod.ts";
import { createNftablesBackend } from "../../../../backends/nftables/backend.ts";
import type { FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { settled } from "../../../fakes/clock.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import type { PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { nftSettings } from "./host.ts";

const RESETTING = nftSettings({ resetsGone: true, goneTimeoutMs: 3_600_000 });
const web = (...endpoints: readonly string[]) =>
  fakeServicePort("default/web", {
    clusterEndpoints: endpoints,
    internal: endpoints.length > 0 ? "cluster" : "reject",
  });
const ONE = "10.1.0.1:8080", TWO = "10.1.0.2:8080";

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
  const backend: Backend = withResets(createNftablesBackend(options), options, isPossible);
  let revision = 0;
  const sync = (set: readonly ServicePort[], gone?: readonly string[], settings?: FamilySettings) =>
    backend.sync({
      revision: ++revision,
      base: settings ? undefined : revision - 1,
      settings,
      set,
      deleted: [],
      ...gone && { gone },
    });
  const table = () => host.tables.get("ip sluice-resets");
  const elements = () => [...table()?.sets.get("endpoints")?.clients.keys() ?? []];
  return { host, backend, problems, reports: () => reports, sync, table, elements };
}

Deno.test("endpoints that are gone are in the set until they are used again, and looked up only while there are any", async () => {
  const { backend, sync, elements, table } = underTest();
  await sync([web(ONE, TWO)], undefined, RESETTING);
  assert.equal(table(), undefined);
  await sync([web(TWO)], [ONE]);
  assert.deepEqual([elements(), [...table()!.chains.keys()]], [["10.1.0.1 . 8080"], ["forward", "output"]]);
  await sync([], [TWO]);
  assert.equal(elements().length, 2);
  // Comparisons keep both.
  assert.equal((await backend.resync()).figures.drift_repaired, 0);
  assert.equal(elements().length, 2);
  await sync([web(ONE, TWO)]);
  assert.deepEqual(elements(), []);
  await backend.resync();
  assert.equal(table(), undefined);
});

Deno.test("the set of an earlier process is read before the first change", async () => {
  const host = createFakeNftHost(), first = underTest(host);
  await first.sync([web(ONE)], undefined, RESETTING);
  await first.sync([web()], [ONE]);
  const second = underTest(host), { run } = host.runner;
  await second.backend.setup();
  const listed: string[] = [];
  host.runner.run = (call) => {
    listed.push(...call.args.join(" ").startsWith("list set ") ? [call.tool] : []);
    return run(call);
  };
  await second.sync([web(ONE)], undefined, RESETTING);
  assert.deepEqual([second.elements(), listed], [[], []]);
});

Deno.test("the table is removed when the last element has expired", async () => {
  const { backend, sync, table } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  await sync([web(TWO)], [ONE]);
  table()!.sets.get("endpoints")!.clients.clear();
  await backend.resync();
  assert.equal(table(), undefined);
  await sync([web(TWO)], [ONE]);
  assert.equal(table()!.chains.size, 2);
});

Deno.test("a new proxy takes the set over, without the endpoints that are used again", async () => {
  const host = createFakeNftHost(), first = underTest(host);
  await first.sync([web(ONE, TWO)], undefined, RESETTING);
  await first.sync([], [ONE, TWO]);
  const second = underTest(host);
  await second.sync([web(TWO)], undefined, RESETTING);
  assert.deepEqual(second.elements(), ["10.1.0.1 . 8080"]);
  await second.backend.cleanup();
  assert.equal(second.table(), undefined);
});

for (
  const [why, isPossible, settings] of [["without the setting", true, nftSettings()], [
    "in another mode",
    false,
    RESETTING,
  ]] as const
) {
  Deno.test(`${why}, the table of an earlier proxy is removed, and nothing is reset`, async () => {
    const host = createFakeNftHost(), first = underTest(host);
    await first.sync([web(ONE)], undefined, RESETTING);
    await first.sync([web(TWO)], [ONE]);
    const second = underTest(host, isPossible);
    await second.sync([web(TWO)], [ONE], settings);
    const { figures } = await second.backend.resync();
    assert.deepEqual([second.table(), figures["connections_reset"]], [undefined, undefined]);
  });
}

Deno.test("a failure is a problem that delays no sync, until an attempt succeeds", async () => {
  const { host, sync, elements, problems, reports } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  await sync([web(TWO)], [ONE]);
  assert.equal(reports(), 0, "a change without a failure sends no report");
  host.refuses = (statement) => statement.includes("element ip sluice-resets") ? "Device busy" : undefined;
  assert.deepEqual((await sync([web(ONE, TWO)])).problems, []);
  assert.match(problems.join(), /connections-not-reset: .*Device busy/);
  host.refuses = () => undefined;
  await sync([]);
  assert.deepEqual([elements(), problems], [[], []]);
});

Deno.test("beside a flow table, whose packets skip the rules, the conntrack entries of deleted endpoints are deleted, too", async () => {
  const { host, sync } = underTest();
  const entry = {
    protocol: "tcp",
    source: "10.9.0.1",
    sourcePort: 1,
    destination: "10.96.0.1",
    destinationPort: 80,
  } as const;
  const to = (address: string, port: number) => host.conntrack.push({ ...entry, answeredBy: { address, port } });
  to("10.1.0.1", 8080);
  to("10.1.0.1", 8081);
  to("10.1.0.2", 8080);
  await sync([web(ONE, TWO)], undefined, RESETTING);
  await sync([web(TWO)], [ONE]);
  assert.equal(host.conntrack.length, 3);
  host.hasFlowTable = true;
  await sync([web(TWO)], [ONE]);
  await settled();
  assert.deepEqual(host.conntrack.map(({ answeredBy }) => answeredBy), [
    { address: "10.1.0.1", port: 8081 },
    { address: "10.1.0.2", port: 8080 },
  ]);
});

Deno.test("a failure to delete conntrack entries is a problem, and is not repeated with each sync", async () => {
  const { host, sync, problems, elements } = underTest();
  host.hasFlowTable = true;
  let calls = 0;
  const { run } = host.runner;
  host.runner.run = (call) => {
    if (call.tool !== "conntrack") return run(call);
    calls++;
    return Promise.reject(new ToolMissingError("conntrack"));
  };
  await sync([web(ONE, TWO)], undefined, RESETTING);
  await sync([web(TWO)], [ONE]);
  await settled();
  assert.match(problems.join(), /connections-not-reset: those in a flow table: conntrack is not installed/);
  await sync([web(TWO)]);
  assert.deepEqual([calls, elements()], [1, ["10.1.0.1 . 8080"]]);
});

Deno.test("an unknown set is removed before its endpoints may be used again", async () => {
  const host = createFakeNftHost(), first = underTest(host);
  await first.sync([web(ONE, TWO)], undefined, RESETTING);
  await first.sync([web(TWO)], [ONE]);
  const { run } = host.runner;
  const refuse = () => {
    host.runner.run = (call) =>
      call.args.join(" ").startsWith("list set") ? Promise.reject(new Error("interrupted")) : run(call);
  };
  // A failed listing of a comparison, and the first one of another process.
  refuse();
  await first.backend.resync();
  host.runner.run = run;
  await first.sync([web(ONE, TWO)]);
  assert.deepEqual(first.elements(), []);
  await first.sync([web(TWO)], [ONE]);
  refuse();
  const second = underTest(host);
  await second.sync([web(ONE, TWO)], undefined, RESETTING);
  assert.equal(second.table(), undefined);
});

Deno.test("an endpoint that nft only claims to take out leaves the set at the next comparison", async () => {
  const { host, backend, sync, elements } = underTest();
  const { run } = host.runner;
  await sync([web(ONE, TWO)], undefined, RESETTING);
  await sync([web()], [ONE, TWO]);
  host.runner.run = (call) =>
    [...call.stdin ?? []].some((statement) => statement.startsWith("delete element"))
      ? Promise.resolve({ exitCode: 0, stdout: "", stderr: "" })
      : run(call);
  await sync([web(ONE)]);
  assert.equal(elements().length, 2);
  host.runner.run = run;
  await backend.resync();
  assert.deepEqual(elements(), ["10.1.0.2 . 8080"]);
});

Deno.test("an endpoint that a failed nft has added leaves the set when it is used again", async () => {
  const { host, sync, elements } = underTest();
  const { run } = host.runner;
  await sync([web(ONE, TWO)], undefined, RESETTING);
  host.runner.run = async (call) => {
    const result = await run(call);
    const isAdding = [...call.stdin ?? []].some((statement) => statement.startsWith("add element ip sluice-resets"));
    return isAdding ? { ...result, exitCode: 137 } : result;
  };
  await sync([web(TWO)], [ONE]);
  assert.deepEqual(elements(), ["10.1.0.1 . 8080"]);
  host.runner.run = run;
  await sync([web(ONE, TWO)]);
  assert.deepEqual(elements(), []);
});

Deno.test("an endpoint that could not be added is forgotten after its time", async () => {
  const { host, sync, elements } = underTest();
  await sync([web(ONE, TWO)], undefined, RESETTING);
  host.refuses = (statement) => statement.includes("add element ip sluice-resets") ? "Device busy" : undefined;
  await sync([web(TWO)], [ONE]);
  host.refuses = () => undefined;
  host.clock.advance(RESETTING.goneTimeoutMs! + 1);
  await sync([web()], [TWO]);
  assert.deepEqual(elements(), ["10.1.0.2 . 8080"]);
});

Deno.test("the set has a limit", async () => {
  const { sync, elements } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  await sync([web(ONE)], Array.from({ length: 10_001 }, (_, i) => `10.2.0.1:${i + 1}`));
  assert.equal(elements().length, 10_000);
});

Deno.test("a cleanup whose removal of the table fails, fails", async () => {
  const { host, backend, sync } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  await sync([web()], [ONE]);
  host.refuses = (statement) => statement === "delete table ip sluice-resets" ? "Device busy" : undefined;
  await assert.rejects(backend.cleanup(), /Device busy/);
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
  const backend = { sync: () => Promise.resolve({ problems: [], figures: {} }) } as unknown as Backend;
  const options = { family: "IPv4", runner, clock: host.clock, logger: silentLogger } as const;
  const { sync } = withResets(backend, { ...options, onProblems: (_, list) => problems.push(...list) }, true);
  await sync({ revision: 1, base: undefined, settings: RESETTING, set: [], deleted: [], gone: [ONE] });
  await sync({ revision: 2, base: 1, settings: undefined, set: [], deleted: [], gone: [TWO] });
  assert.deepEqual([calls, problems], [1, []]);
});

Deno.test("packets of connections to endpoints that are gone are rejected, and no others", async () => {
  const { host, sync } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  const packet = { from: "pod-on-node", to: "10.1.0.1", port: 8080, state: "ESTABLISHED" } satisfies PacketRequest;
  const send = (changes: Partial<PacketRequest> = {}) =>
    host.send({ ...packet, isTranslated: true, ...changes }).verdict;
  assert.equal(send(), "passed");
  await sync([], [ONE]);
  assert.equal(send(), "rejected");
  assert.equal(send({ from: "node" }), "rejected");
  assert.equal(send({ port: 8081 }), "passed");
  assert.equal(send({ to: "10.1.0.9" }), "passed");
  assert.equal(host.send(packet).verdict, "passed", "a connection to the pod itself");
});
