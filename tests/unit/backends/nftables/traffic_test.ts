import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { fakeServicePort, fakeSources } from "../../../fakes/service_port.ts";
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
    if (reading === undefined) return undefined;
    const { ports, endpoints, counts, failures } = reading;
    const rows = ports.map((port, row) => `${port} ${endpoints[row]} ${[...counts.subarray(3 * row, 3 * row + 3)]}`);
    return [...rows, ...failures.map(({ port, reason, packets }) => `${port} ${reason} ${packets}`)];
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
  const { host, read } = await counting([
    fakeServicePort("default/empty", { clusterEndpoints: [], internal: "reject", external: "reject" }),
    fakeServicePort("default/elsewhere", {
      clusterIP: "10.96.0.11",
      nodePort: 30081,
      external: "drop",
      clusterEndpoints: ["10.2.0.1:80"],
    }),
    fakeServicePort("default/limited", {
      clusterIP: "10.96.0.12",
      loadBalancerIPs: ["192.0.2.2"],
      loadBalancerSources: fakeSources(["198.18.0.0/24"]),
    }),
  ]);
  host.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  for (const _ of [1, 2]) host.send({ from: "outside", to: "192.168.1.1", port: 30081 });
  host.send({ from: "outside", to: "192.0.2.2", port: 80 });
  assert.deepEqual((await read())!.sort(), [
    "default/elsewhere|tcp traffic-policy 2",
    "default/empty|tcp no-endpoints 1",
    "default/limited|tcp source-range 1",
  ]);
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
  assert.equal((await backend.resync()).figures.drift_repaired, 0);
  await snapshot([WEB], nftSettings());
  assert.deepEqual([...table().sets.keys(), ...table().chains.keys()].filter((name) => name.startsWith("count-")), []);
  assert.equal((await backend.resync()).figures.drift_repaired, 0);
});
