/** Algorithms and weights in nftables mode, with packets. */
import assert from "node:assert/strict";
import type { Balance, ServicePort } from "../../../../core/model/mod.ts";
import { balanceTable } from "../../../../core/model/mod.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { outcomeShares, type PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

const THREE = ["10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080"];
const PACKET: PacketRequest = { from: { address: "10.1.9.9", interface: "cni0" }, to: "10.96.0.10", port: 80 };

async function hostWith(balance: Balance, changes: Partial<ServicePort> = {}) {
  const host = createFakeNftHost();
  const backend = backendUnderTest(host);
  const port = fakeServicePort("default/web:http", { clusterEndpoints: THREE, balance, ...changes });
  assert.deepEqual((await backend.snapshot([port], nftSettings())).problems, []);
  return { host, backend, port };
}

const CLIENTS = Array.from({ length: 200 }, (_, i) => `10.1.9.${i + 1}`);

Deno.test("round-robin visits the endpoints in turn, each service port for itself", async () => {
  const { host, backend } = await hostWith({ algorithm: "round-robin" });
  const other = fakeServicePort("default/other", {
    clusterIP: "10.96.0.11",
    clusterEndpoints: THREE,
    balance: { algorithm: "round-robin" },
  });
  assert.deepEqual((await backend.change([other])).problems, []);
  const visited = Array.from({ length: 6 }, () => {
    host.send({ ...PACKET, to: "10.96.0.11" });
    return host.send(PACKET).destination;
  });
  assert.deepEqual(visited, [...THREE, ...THREE]);
});

Deno.test("with consistent-hash, the client's address and port decide, by the same table on every node", async () => {
  const { host } = await hostWith({ algorithm: "consistent-hash", hash: "flow" });
  const { host: other } = await hostWith({ algorithm: "consistent-hash", hash: "flow" });
  const reached = new Set<string>();
  for (let sourcePort = 1024; sourcePort < 1124; sourcePort++) {
    const [one, ...more] = host.outcomes({ ...PACKET, sourcePort });
    assert.deepEqual(more, []);
    assert.deepEqual(other.outcomes({ ...PACKET, sourcePort }), [one]);
    reached.add(one!.outcome.destination);
  }
  assert.deepEqual([...reached].sort(), THREE);
});

Deno.test("with consistent-hash by client, the port of the client makes no difference, nor does the frontend", async () => {
  const { host } = await hostWith({ algorithm: "consistent-hash", hash: "client" }, { nodePort: 30080 });
  const reached = new Set<string>();
  for (const address of CLIENTS) {
    const from = { address, interface: "cni0" };
    const { destination } = host.send({ ...PACKET, from });
    reached.add(destination);
    assert.equal(host.send({ ...PACKET, from, sourcePort: 5 }).destination, destination);
    assert.equal(host.send({ ...PACKET, from, to: "192.168.1.1", port: 30080 }).destination, destination);
  }
  assert.deepEqual([...reached].sort(), THREE);
});

Deno.test("random picks by weight, and weight 0 gets nothing", async () => {
  const { host } = await hostWith({ algorithm: "random", clusterWeights: [3, 1, 0] }, { nodePort: 30080 });
  assert.deepEqual(outcomeShares(host, PACKET), { "10.1.0.1:8080": 0.75, "10.1.0.2:8080": 0.25 });
  const outside = outcomeShares(host, { from: "outside", to: "192.168.1.1", port: 30080 });
  assert.deepEqual(outside, { "10.1.0.1:8080 masqueraded": 0.75, "10.1.0.2:8080 masqueraded": 0.25 });
});

Deno.test("policy Local balances by the weights of its own list", async () => {
  const { host } = await hostWith(
    { algorithm: "random", clusterWeights: [1, 1, 8], localWeights: [1, 4] },
    { internal: "local", localEndpoints: THREE.slice(1) },
  );
  assert.deepEqual(outcomeShares(host, PACKET), { "10.1.0.2:8080": 0.2, "10.1.0.3:8080": 0.8 });
});

Deno.test("session affinity keeps clients, and new ones are picked by the algorithm and the weights", async () => {
  for (const clusterWeights of [undefined, [2, 1, 1]]) {
    const balance: Balance = { algorithm: "consistent-hash", hash: "client", clusterWeights };
    const { host } = await hostWith(balance);
    const { host: sticky } = await hostWith(balance, { affinitySeconds: 60 });
    for (const address of CLIENTS) {
      const packet = { ...PACKET, from: { address, interface: "cni0" } };
      assert.equal(sticky.send(packet).destination, host.send(packet).destination);
    }
    const [{ outcome } = { outcome: undefined }] = sticky.outcomes({ ...PACKET, sourcePort: 9 });
    assert.equal(outcome?.destination, sticky.send({ ...PACKET, sourcePort: 10 }).destination);
  }
  const { host } = await hostWith({ algorithm: "random", clusterWeights: [2, 1, 1] }, { affinitySeconds: 60 });
  assert.deepEqual(outcomeShares(host, PACKET), {
    "10.1.0.1:8080": 0.5,
    "10.1.0.2:8080": 0.25,
    "10.1.0.3:8080": 0.25,
  });
  const { host: inTurn } = await hostWith({ algorithm: "round-robin" }, { affinitySeconds: 60 });
  const visited = CLIENTS.slice(0, 6).map((address) =>
    inTurn.send({ ...PACKET, from: { address, interface: "cni0" } }).destination
  );
  assert.deepEqual(visited, [...THREE, ...THREE]);
});

Deno.test("a changed endpoint rewrites the slots that moved alone", async () => {
  const balance: Balance = { algorithm: "consistent-hash", hash: "flow" };
  const { host, backend, port } = await hostWith(balance);
  const next = [...THREE.slice(0, 2), "10.1.0.4:8080"];
  const slots = (endpoints: readonly string[]) =>
    balanceTable(balance, { endpoints, weights: undefined })!.map((index) => endpoints[index]);
  const moved = slots(THREE).filter((endpoint, slot) => endpoint !== slots(next)[slot]).length;
  assert.ok(moved < 12);
  await backend.change([{ ...port, clusterEndpoints: next }]);
  const written = host.transactions.at(-1)!.join("\n").match(/10\.96\.0\.10 \. 80 \. \d+ :/g);
  assert.equal(written?.length, moved);
});

Deno.test("service ports of equal numbers of slots share the chain of consistent-hash", async () => {
  const { host, backend } = await hostWith({ algorithm: "consistent-hash", hash: "flow" });
  const before = host.tables.get("ip sluice")!.chains.size;
  const other = fakeServicePort("default/other", {
    clusterIP: "10.96.0.11",
    clusterEndpoints: THREE.slice(1),
    balance: { algorithm: "consistent-hash", hash: "flow" },
  });
  await backend.change([other]);
  assert.equal(host.tables.get("ip sluice")!.chains.size, before);
});
