/** Paths of packets that are special to nftables mode; those of all modes are in tests/unit/backends. */
import assert from "node:assert/strict";
import type { FamilySettings } from "../../../../core/model/mod.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { MASQUERADED, outcomeShares, type PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../../../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

async function asking(settings: FamilySettings = nftSettings()) {
  const host = createFakeNftHost({ surroundings: { nodeAddresses: ["192.168.1.1", "192.168.2.1"] } });
  const port = fakeServicePort("default/web:http", { nodePort: 30080 });
  assert.deepEqual((await backendUnderTest(host).snapshot([port], settings)).problems, []);
  return (packet: Partial<PacketRequest>) =>
    outcomeShares(host, { from: "pod-on-node", to: "10.96.0.10", port: 80, ...packet });
}

Deno.test("packets to an unknown port of a cluster IP are rejected", async () => {
  const ask = await asking();
  for (const from of ["pod-on-node", "node", "outside"] as const) {
    assert.deepEqual(ask({ from, port: 53 }), { rejected: 1 });
    assert.deepEqual(ask({ from, protocol: "udp" }), { rejected: 1 });
  }
});

Deno.test("node ports are never served on loopback addresses", async () => {
  for (const nodePortPrefixes of [undefined, ["0.0.0.0/0"], ["127.0.0.0/8"], ["127.0.0.1/32"]]) {
    const ask = await asking(nftSettings({ nodePortPrefixes, localhostNodePorts: true }));
    assert.deepEqual(ask({ from: "node", to: "127.0.0.1", port: 30080 }), { passed: 1 });
  }
});

Deno.test("with a pod prefix of length 0, all traffic counts as the pods'", async () => {
  const ask = await asking(nftSettings({ localTraffic: { by: "source-prefix", prefix: "0.0.0.0/0" } }));
  assert.deepEqual(ask({ from: "outside" }), { "10.1.0.1:8080": 1 });
  assert.deepEqual(ask({ from: "outside", to: "192.168.2.1", port: 30080 }), { passed: 1 });
  assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30080 }), { ["10.1.0.1:8080" + MASQUERADED]: 1 });
});

Deno.test("packets to an unused address of a service range are dropped", async () => {
  const ask = await asking(nftSettings({ serviceRanges: ["10.96.0.0/16", "10.98.0.0/16"] }));
  for (const from of ["pod-on-node", "node", "outside"] as const) {
    for (const to of ["10.96.0.11", "10.98.7.7"]) assert.deepEqual(ask({ from, to }), { dropped: 1 });
    assert.deepEqual(ask({ from, to: "10.97.0.11" }), { passed: 1 });
    // An unknown port of a service's address is rejected, and an open connection continues.
    assert.deepEqual(ask({ from, port: 53 }), { rejected: 1 });
    assert.deepEqual(ask({ from, to: "10.96.0.11", state: "ESTABLISHED" }), { passed: 1 });
  }
  assert.deepEqual(ask({}), { "10.1.0.1:8080 masqueraded": 1 });
});

Deno.test("without endpoints, packets from outside a load balancer's source ranges are dropped, others are rejected", async () => {
  const host = createFakeNftHost();
  const port = fakeServicePort("default/web:http", {
    loadBalancerIPs: ["192.0.2.2"],
    loadBalancerSources: fakeSources(["203.0.113.0/24"]),
    clusterEndpoints: [],
    internal: "reject",
    external: "reject",
  });
  assert.deepEqual((await backendUnderTest(host).snapshot([port])).problems, []);
  const ask = (address: string) =>
    outcomeShares(host, { from: { address, interface: "eth0" }, to: "192.0.2.2", port: 80 });
  assert.deepEqual(ask("198.51.100.9"), { dropped: 1 });
  assert.deepEqual(ask("203.0.113.9"), { rejected: 1 });
});

Deno.test("INVALID packets are forwarded: replies of their connection may take another route", async () => {
  const ask = await asking(nftSettings({ conntrackTcpLiberal: false }));
  assert.deepEqual(ask({ from: "outside", to: "10.1.0.9", port: 8080, state: "INVALID" }), { passed: 1 });
});
