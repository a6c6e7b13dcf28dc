import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import type { ToolResult } from "../../../../backends/tools/runner.ts";
import { createFakeNftHost, type FakeNftHost } from "../../../fakes/nft_runner.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { REFUSED, REFUSING, rowsOf } from "../../../fakes/traffic.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

const COUNTING = nftSettings({ countTraffic: true });
const WEB = fakeServicePort("default/web:http", {
  nodePort: 30080,
  clusterEndpoints: ["10.1.0.1:8080"],
});

async function counting(ports: readonly ServicePort[] = [WEB], settings: FamilySettings = COUNTING) {
  const host = createFakeNftHost({ surroundings: { nodeAddresses: ["192.168.1.1"] } });
  const under = backendUnderTest(host);
  assert.deepEqual((await under.snapshot(ports, settings)).problems, []);
  const read = async () => {
    const reading = await under.backend.readTraffic!();
    return reading && rowsOf(reading);
  };
  return { ...under, read };
}

Deno.test("a reading has the connections, packets and bytes of each endpoint since the last one", async () => {
  const { host, read } = await counting();
  assert.deepEqual(await read(), []);
  for (const from of ["pod-on-node", "node", "outside"] as const) host.send({ from, to: "10.96.0.10", port: 80 });
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 3,3,180"]);
  host.send({ from: "outside", to: "192.168.1.1", port: 30080 });
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 1,1,60"]);
  assert.deepEqual(await read(), []);
});

Deno.test("connections that no service has are not counted", async () => {
  const { host, read } = await counting();
  host.send({ from: "pod-on-node", to: "8.8.8.8", port: 53 });
  host.send({ from: "pod-on-node", to: "10.1.0.1", port: 8080 });
  assert.deepEqual(await read(), []);
});

Deno.test("counters of another service port keep their owner when frontends move", async () => {
  const { host, read, change } = await counting();
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await read();
  await change([{ ...WEB, name: "default/new:http" }], ["default/web:http|tcp"]);
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  assert.deepEqual(await read(), ["default/new:http|tcp 10.1.0.1:8080 1,1,60"]);
});

Deno.test("failed packets are counted by reason", async () => {
  const { host, read } = await counting(REFUSING);
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  for (const port of [30081, 30081, 30083, 30083]) host.send({ from: "outside", to: "192.168.1.1", port });
  host.send({ from: "outside", to: "192.0.2.2", port: 80 });
  assert.deepEqual(await read(), REFUSED);
});

Deno.test("a restarted worker does not count again what an earlier one has counted", async () => {
  const { host, read } = await counting();
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await read();
  const successor = backendUnderTest(host);
  await successor.snapshot([WEB], COUNTING);
  assert.deepEqual((await successor.backend.readTraffic!())!.ports, []);
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  assert.deepEqual([...(await successor.backend.readTraffic!())!.counts], [1, 1, 60]);
});

Deno.test("counters that restart from 0 count from there", async () => {
  const { host, read, backend } = await counting();
  for (const _ of [1, 2, 3]) host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await read();
  host.tables.clear();
  await backend.resync();
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 1,1,60"]);
});

Deno.test("traffic is neither counted nor listed if the settings do not ask for it", async () => {
  const { host, read, table } = await counting([WEB], nftSettings());
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  assert.equal(await read(), undefined);
  assert.deepEqual([...table().sets.keys(), ...table().chains.keys()].filter((name) => name.startsWith("count-")), []);
});

Deno.test("a change of the setting adds and removes the counters, and is no drift", async () => {
  const { read, table, snapshot, backend } = await counting([WEB], nftSettings());
  await snapshot([WEB], COUNTING);
  assert.deepEqual(await read(), []);
  assert.equal((await backend.resync()).counts.drift_repaired, 0);
  await snapshot([WEB], nftSettings());
  assert.deepEqual([...table().sets.keys(), ...table().chains.keys()].filter((name) => name.startsWith("count-")), []);
  assert.equal((await backend.resync()).counts.drift_repaired, 0);
});

/** Records the calls of nft that read, with their input, and answers some in place of the host. */
function watchNft(
  host: FakeNftHost,
  instead: (words: string, lines: string[]) => ToolResult | undefined = () => undefined,
) {
  const { run } = host.runner;
  const listed: string[][] = [];
  host.runner.run = async (call) => {
    const lines = call.args.includes("list")
      ? [call.args.join(" ")]
      : [...call.stdin ?? []].map((line) => line.trimEnd());
    const sets = lines.flatMap((line) => /list set \S+ \S+ (\S+)/.exec(line)?.[1] ?? []);
    if (sets.length > 0) listed.push(sets);
    return instead(call.args.join(" "), lines) ?? await run(call);
  };
  return listed;
}

const READ_ALWAYS = [
  "count-connections",
  "count-packets",
  "count-rejected",
  "count-dropped",
  "count-outside",
  "count-unanswered",
];

Deno.test("one process lists all sets; another lists the pairs once, when a counter at a node port is new", async () => {
  const { host, read } = await counting();
  const listed = watchNft(host);
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await read();
  assert.deepEqual(listed.splice(0), [READ_ALWAYS]);
  host.send({ from: "outside", to: "192.168.1.1", port: 30080 });
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 1,1,60"]);
  assert.deepEqual(listed.splice(0), [READ_ALWAYS, ["count-pairs"]]);
  host.send({ from: "outside", to: "192.168.1.1", port: 30080 });
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 1,1,60"]);
  assert.deepEqual(listed, [READ_ALWAYS]);
});

Deno.test("packets of connections older than Sluice count, those at node ports if the kernel knows the pair", async () => {
  const { host, table } = await counting();
  const to = [{ to: "10.96.0.10", port: 80 }, { to: "192.168.1.1", port: 30080 }];
  for (const each of to) host.send({ from: "outside", ...each });
  table().sets.get("count-pairs")!.clients.clear();
  const successor = backendUnderTest(host);
  await successor.snapshot([WEB], COUNTING);
  const listed = watchNft(host);
  const { counters } = table().sets.get("count-packets")!;
  const read = async () => {
    for (const [hash, packets] of counters) counters.set(hash, packets + 1);
    return [...(await successor.backend.readTraffic!())!.counts];
  };
  assert.deepEqual(await read(), [0, 1, 60]);
  assert.deepEqual(listed.splice(0), [READ_ALWAYS, ["count-pairs"]]);
  assert.deepEqual(await read(), [0, 1, 60]);
  assert.deepEqual(listed.splice(0), [READ_ALWAYS], "a pair without a name is not looked for in vain each time");
  host.send({ from: "outside", ...to[1]! });
  assert.deepEqual(await read(), [1, 3, 180], "a new connection at the node port names its pair");
});

Deno.test("a pair without a name is looked for again when service ports change", async () => {
  const { host, table } = await counting();
  host.send({ from: "outside", to: "10.96.0.10", port: 80 });
  table().sets.get("count-pairs")!.clients.clear();
  const { snapshot, change, backend } = backendUnderTest(host);
  await snapshot([], COUNTING);
  const { counters } = table().sets.get("count-packets")!;
  const read = async () => {
    for (const [hash, packets] of counters) counters.set(hash, packets + 1);
    return [...(await backend.readTraffic!())!.counts];
  };
  assert.deepEqual([await read(), await read()], [[], []]);
  await change([WEB]);
  assert.deepEqual(await read(), [0, 1, 60]);
});

Deno.test("a counter of failed packets that has expired counts from the start again", async () => {
  const { host, read, table } = await counting(REFUSING);
  const refused = async () => {
    host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
    const rows = await read();
    const { clients, counters } = table().sets.get("count-rejected")!;
    clients.clear();
    counters.clear();
    await read();
    return rows;
  };
  const first = await refused();
  assert.equal(first!.length, 1);
  assert.deepEqual(await refused(), first);
});

type CountingTable = ReturnType<Awaited<ReturnType<typeof counting>>["table"]>;

/** Has the kernel forget the counters of all pairs, and the pairs, as it does some time after the last packet. */
function expirePairs(table: CountingTable): void {
  for (const name of ["count-connections", "count-packets", "count-pairs"]) {
    const { clients, counters } = table.sets.get(name)!;
    clients.clear();
    counters.clear();
  }
}

/** Has the kernel count packets of a pair that belongs to no service. */
function countUnknown(table: CountingTable, hash: string, packets: number): void {
  const { clients, counters } = table.sets.get("count-packets")!;
  clients.set(hash, Infinity);
  counters.set(hash, packets);
}

Deno.test("counters that have expired leave their names to no other pair", async () => {
  const { host, read, table } = await counting();
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await read();
  expirePairs(table());
  await read();
  countUnknown(table(), "0x00000001", 5);
  assert.deepEqual(await read(), []);
});

Deno.test("a pair is looked for even if an expired counter in its place had none", async () => {
  const { host, read, table } = await counting();
  await read();
  const listed = watchNft(host);
  const lookUps = async (hash: string, packets: number) => {
    countUnknown(table(), hash, packets);
    await read();
    return listed.splice(0).filter(([set]) => set === "count-pairs").length;
  };
  assert.deepEqual([await lookUps("0x00000001", 5), await lookUps("0x00000001", 6)], [1, 0]);
  expirePairs(table());
  await read();
  assert.equal(await lookUps("0x00000002", 5), 1);
});

Deno.test("an endpoint that is gone keeps its name while its counters are active", async () => {
  const { host, read, change } = await counting();
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await read();
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await change([{ ...WEB, clusterEndpoints: ["10.1.0.2:8080"] }]);
  const listed = watchNft(host);
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 1,1,60"]);
  assert.deepEqual(listed, [READ_ALWAYS]);
});

Deno.test("an nft without an interactive mode lists the sets one by one", async () => {
  const { host, read } = await counting();
  const stderr = "nft: interactive CLI not supported in this build\n";
  const listed = watchNft(host, (words) => words === "-n -i" ? { exitCode: 1, stdout: "", stderr } : undefined);
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 1,1,60"]);
  assert.deepEqual(listed.splice(0), [READ_ALWAYS, ...READ_ALWAYS.map((set) => [set])]);
  await read();
  assert.deepEqual(listed, READ_ALWAYS.map((set) => [set]));
});

Deno.test("after a listing that fails for one set, nothing counts twice and nothing is lost", async () => {
  const { host, read } = await counting();
  let fails = true;
  const { run } = host.runner;
  host.runner.run = async (call) => {
    if (!fails || call.args.join(" ") !== "-n -i") return await run(call);
    const result = await run({ ...call, stdin: [...call.stdin!].filter((line) => !line.includes("count-packets")) });
    return { ...result, stderr: "Error: Could not process rule: Operation not permitted\n" };
  };
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  await assert.rejects(read(), /nft list set failed.*Operation not permitted/);
  fails = false;
  assert.deepEqual(await read(), ["default/web:http|tcp 10.1.0.1:8080 1,1,60"]);
  assert.deepEqual(await read(), []);
});
