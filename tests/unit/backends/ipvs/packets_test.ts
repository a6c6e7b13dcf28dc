/** Packet paths that are specific to IPVS mode. */
import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import { MASQUERADED, outcomeShares, outcomeText, type PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../../../fakes/service_port.ts";
import { backendUnderTest, createIpvsHost, ipvsModeSettings } from "./host.ts";

const THREE = ["10.244.1.1:8080", "10.244.1.2:8080", "10.244.2.3:8081"];
const third = (suffix = "") => Object.fromEntries(THREE.map((endpoint) => [endpoint + suffix, 0.3333]));
const web = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/web:http", { clusterEndpoints: THREE, ...changes });

async function served(ports: readonly ServicePort[], settings: Partial<FamilySettings> = {}) {
  const host = createIpvsHost();
  const under = await backendUnderTest(host);
  assert.deepEqual((await under.snapshot(ports, ipvsModeSettings(settings))).problems, []);
  const packet = (changes: Partial<PacketRequest>): PacketRequest => ({
    from: "pod-on-node",
    to: "10.96.0.10",
    port: 80,
    ...changes,
  });
  return {
    ...under,
    ask: (changes: Partial<PacketRequest> = {}) => outcomeShares(host.runner, packet(changes)),
    send: (changes: Partial<PacketRequest> = {}) => outcomeText(host.runner.send(packet(changes))),
  };
}

Deno.test("without endpoints the kernel refuses connections, with internal policy Local also without one on this node", async () => {
  const { ask } = await served([
    web({ clusterEndpoints: [], internal: "reject", external: "reject", nodePort: 30080, externalIPs: ["192.0.2.1"] }),
    web({ name: "default/local:http", clusterIP: "10.96.0.11", internal: "drop" }),
  ]);
  for (const from of ["pod-on-node", "outside", "node"] as const) {
    assert.deepEqual(ask({ from }), { rejected: 1 });
    assert.deepEqual(ask({ from, to: "192.0.2.1" }), { rejected: 1 });
    assert.deepEqual(ask({ from, to: "192.168.1.1", port: 30080 }), { rejected: 1 });
    assert.deepEqual(ask({ from, to: "10.96.0.11" }), { rejected: 1 });
  }
});

Deno.test("with policy Local an address serves this node's endpoints, or all endpoints if this node has none", async () => {
  const local = {
    external: "local",
    localEndpoints: [THREE[0]!],
    nodePort: 30080,
    externalIPs: ["192.0.2.1"],
  } as const;
  const frontends = [{ to: "192.0.2.1" }, { to: "192.168.1.1", port: 30080 }, { to: "192.0.2.2" }];
  const ports = (changes: Partial<ServicePort>) => [web({ ...local, loadBalancerIPs: ["192.0.2.2"], ...changes })];
  const { ask } = await served(ports({}));
  const { ask: without } = await served(ports({ external: "drop", localEndpoints: [] }));
  for (const frontend of frontends) {
    for (const from of ["outside", "pod-on-node"] as const) {
      // The source address is kept.
      assert.deepEqual(ask({ ...frontend, from }), { [THREE[0]!]: 1 });
      assert.deepEqual(without({ ...frontend, from }), third());
    }
  }
  assert.deepEqual(ask(), third());
});

Deno.test("with session affinity a client keeps its endpoint at each address until the timeout, or until the endpoint is removed", async () => {
  const { ask, send, change, clock } = await served([web({ affinitySeconds: 60 })]);
  const first = send();
  assert.deepEqual(ask(), { [first]: 1 });
  assert.deepEqual(ask({ from: { address: "10.244.1.9", interface: "cni0" } }), third());
  clock.advance(59_000);
  send();
  clock.advance(59_000);
  assert.deepEqual(ask(), { [first]: 1 });
  const rest = THREE.filter((endpoint) => endpoint !== first);
  await change([web({ affinitySeconds: 60, clusterEndpoints: rest })]);
  assert.deepEqual(ask(), { [rest[0]!]: 0.5, [rest[1]!]: 0.5 });
  const second = send();
  clock.advance(61_000);
  assert.deepEqual(Object.keys(ask()).length, 2, second);
});

Deno.test("node ports are served at the node's own addresses, not at service, loopback or link-local ones", async () => {
  const { runner, ask } = await served([web({ nodePort: 30080, externalIPs: ["192.168.1.1"] })]);
  const keys = [...runner.ipvs.servers.keys()].sort();
  assert.deepEqual(keys, ["-t 10.96.0.10:80", "-t 192.168.1.1:30080", "-t 192.168.1.1:80"]);
  // An external IP that the node has already is not bound a second time.
  assert.deepEqual([...runner.ipvs.interfaces.get("kube-ipvs0")!], ["10.96.0.10/32"]);
  assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30080 }), third(MASQUERADED));
});

Deno.test("a program that listens on the node is not reachable through a service address", async () => {
  const { ask } = await served([web({ externalIPs: ["192.0.2.1"] })]);
  for (const to of ["10.96.0.10", "192.0.2.1"]) {
    assert.deepEqual(ask({ from: "outside", to, port: 22 }), { rejected: 1 });
  }
  assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 22 }), { passed: 1 });
});

Deno.test("a service port with the number of another service's node port is not a node port", async () => {
  const { ask } = await served([
    web({ nodePort: 30080 }),
    web({ name: "default/other:http", clusterIP: "10.96.0.11", port: 30080 }),
  ]);
  assert.deepEqual(ask({ to: "10.96.0.11", port: 30080 }), third());
});

Deno.test("source ranges apply to traffic of the node itself", async () => {
  const port = web({ loadBalancerIPs: ["192.0.2.2"], loadBalancerSources: fakeSources(["203.0.113.0/24"]) });
  const { ask, change } = await served([port]);
  assert.deepEqual(ask({ from: "node", to: "192.0.2.2" }), { dropped: 1 });
  await change([web({ loadBalancerIPs: ["192.0.2.2"], loadBalancerSources: fakeSources(["192.168.1.0/24"]) })]);
  assert.equal(ask({ from: "node", to: "192.0.2.2" })["dropped"], undefined);
  assert.deepEqual(ask({ from: "outside", to: "192.0.2.2" }), { dropped: 1 });
  await change([web({ loadBalancerIPs: ["192.0.2.2"], loadBalancerSources: fakeSources(["0.0.0.0/0"]) })]);
  assert.deepEqual(ask({ from: "outside", to: "192.0.2.2" }), third(MASQUERADED));
});

Deno.test("traffic to loopback is not changed, even at the number of a node port", async () => {
  const { runner } = await served([web({ nodePort: 30080 })]);
  const { outcome } = runner.outcomes({ from: "node", to: "127.0.0.1", port: 30080 })[0]!;
  assert.deepEqual([outcome.verdict, outcome.masqueraded], ["passed", false]);
});

Deno.test("without local pod detection, traffic that the node sends from a cluster IP is still masqueraded", async () => {
  const { ask } = await served([web()], { localTraffic: { by: "none" } });
  assert.deepEqual(ask({ from: "node" }), third(MASQUERADED));
  assert.deepEqual(ask({ from: "outside" }), third());
});

Deno.test("SCTP is served at cluster IPs and node ports", async () => {
  const { ask } = await served([web({ protocol: "sctp", nodePort: 30080 })]);
  assert.deepEqual(ask({ protocol: "sctp" }), third());
  assert.deepEqual(
    ask({ protocol: "sctp", from: "outside", to: "192.168.1.1", port: 30080 }),
    third(MASQUERADED),
  );
});
