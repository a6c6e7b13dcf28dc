/**
 * Packets in userspace mode; what it shares with iptables mode is tested there. A packet of the node to the relay goes from
 * its address to that same address, so the rule for hairpin traffic applies, without effect.
 */
import assert from "node:assert/strict";
import type { Family, FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import { USERSPACE_MODE } from "../../../../backends/userspace/mod.ts";
import { MASQUERADED, outcomeShares, type PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../../../fakes/service_port.ts";
import { backendUnderTest, createHost, podSettings } from "../iptables/host.ts";

const RELAY = { cluster: 41_000, local: 41_001 };
const TWO = ["10.244.1.1:8080", "10.244.2.2:8080"];
const AT_NODE = { relayAddress: "192.168.1.1" };

const web = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/web:http", { clusterEndpoints: TWO, relay: { cluster: RELAY.cluster }, ...changes });

const SIX: Partial<ServicePort> = { clusterIP: "fd00:96::10", clusterEndpoints: ["[fd00:244:1::1]:8080"] };

async function start(ports: readonly ServicePort[], changes: Partial<FamilySettings> = AT_NODE, family?: Family) {
  const { create } = await USERSPACE_MODE.load();
  const host = createHost();
  const served = await backendUnderTest(host, family, create);
  const settings = podSettings({ mode: "userspace", ...changes });
  assert.deepEqual((await served.snapshot(ports, settings)).problems, []);
  const ask = (packet: Partial<PacketRequest> = {}) =>
    outcomeShares(host.runner, { from: "pod-on-node", to: "10.96.0.10", port: 80, ...packet });
  return { ...served, settings, ask };
}

Deno.test("connections to a service go to the relay, whoever connects, and are not masqueraded", async () => {
  const { ask } = await start([web({ nodePort: 30080, externalIPs: ["192.0.2.1"] })]);
  for (const from of ["pod-on-node", "outside", "node"] as const) {
    const relayed = { [`192.168.1.1:41000${from === "node" ? MASQUERADED : ""}`]: 1 };
    for (const to of ["10.96.0.10", "192.0.2.1"]) assert.deepEqual(ask({ from, to }), relayed);
    assert.deepEqual(ask({ from, to: "192.168.1.1", port: 30080 }), relayed);
  }
  assert.deepEqual(ask({ protocol: "udp" }), { passed: 1 });
});

Deno.test("the kernel picks the address where the node's own is unknown", async () => {
  const { ask } = await start([web()], { relayAddress: undefined });
  assert.deepEqual(ask(), { "192.168.1.1:41000": 1 });
  assert.deepEqual(ask({ from: "node" }), { "127.0.0.1:41000": 1 });
  const six = await start([web(SIX)], { relayAddress: undefined, localTraffic: { by: "none" } }, "IPv6");
  assert.deepEqual(six.ask({ to: "fd00:96::10" }), { "[fd00:168::1]:41000": 1 });
  assert.deepEqual(six.ask({ to: "fd00:96::10", from: "node" }), { "[::1]:41000": 1 });
});

Deno.test("policy Local has a relay port of its own; the node and its pods may use every endpoint", async () => {
  const { ask } = await start([
    web({ nodePort: 30080, external: "local", localEndpoints: [TWO[0]!], relay: RELAY }),
  ]);
  const toNodePort = { to: "192.168.1.1", port: 30080 };
  assert.deepEqual(ask({ from: "outside", ...toNodePort }), { "192.168.1.1:41001": 1 });
  assert.deepEqual(ask({ from: "pod-on-node", ...toNodePort }), { "192.168.1.1:41000": 1 });
  assert.deepEqual(ask({ from: "node", ...toNodePort }), { [`192.168.1.1:41000${MASQUERADED}`]: 1 });
});

Deno.test("a node port that its service limits to some addresses reaches the relay there only", async () => {
  const limited = { nodePort: 30080, nodePortPrefixes: ["192.168.1.0/24"] };
  const { ask, change } = await start([web(limited)], {
    ...AT_NODE,
    nodePortPrefixes: undefined,
    localhostNodePorts: true,
  });
  const toNodePort = { to: "192.168.1.1", port: 30080 }, toLocalhost = { to: "127.0.0.1", port: 30080 };
  assert.deepEqual(ask({ from: "outside", ...toNodePort }), { "192.168.1.1:41000": 1 });
  assert.deepEqual(ask({ from: "node", ...toLocalhost }), { passed: 1 });
  await change([web({ ...limited, nodePortPrefixes: ["127.0.0.0/8"] })]);
  assert.deepEqual(ask({ from: "outside", ...toNodePort }), { passed: 1 });
  assert.deepEqual(ask({ from: "node", ...toLocalhost }), { "192.168.1.1:41000": 1 });
});

Deno.test("source ranges are checked before the relay", async () => {
  const { ask } = await start([
    web({ loadBalancerIPs: ["192.0.2.2"], loadBalancerSources: fakeSources(["203.0.113.0/24"]) }),
  ]);
  const to = (address: string) => ask({ from: { address, interface: "eth0" }, to: "192.0.2.2" });
  assert.deepEqual(to("203.0.113.7"), { "192.168.1.1:41000": 1 });
  assert.deepEqual(to("198.51.100.1"), { dropped: 1 });
});

Deno.test("a packet to a relay port that no rule sent there is dropped, on every address and in both protocols", async () => {
  const dns = fakeServicePort("default/dns", {
    protocol: "udp",
    port: 53,
    clusterIP: "10.96.0.11",
    relay: { cluster: 41_002 },
  });
  const { ask, change } = await start([web({ healthCheckNodePort: 32_000 }), dns]);
  const direct = { to: "192.168.1.1", port: 41_000 };
  for (const state of ["NEW", "ESTABLISHED", "UNTRACKED", "INVALID"] as const) {
    assert.deepEqual(ask({ from: "outside", state, ...direct }), { dropped: 1 });
  }
  for (const from of ["outside", "pod-on-node", "node"] as const) {
    assert.deepEqual(ask({ from, ...direct }), { dropped: 1 });
  }
  assert.deepEqual(ask({ from: "outside", ...direct, port: 41_002 }), { passed: 1 });
  assert.deepEqual(ask({ from: "outside", ...direct, port: 41_002, protocol: "udp" }), { dropped: 1 });
  assert.deepEqual(ask({ from: "outside", ...direct, port: 32_000 }), { passed: 1 });
  await change([], ["default/web:http|tcp"]);
  assert.deepEqual(ask({ from: "outside", ...direct }), { passed: 1 });
});

Deno.test("localhost serves node ports in both families, and the kernel routes no loopback addresses", async () => {
  const { ask, runner } = await start([web({ nodePort: 30080 })]);
  assert.deepEqual(ask({ from: "node", to: "127.0.0.1", port: 30080 }), { "192.168.1.1:41000": 1 });
  assert.equal(runner.sysctls.get("net.ipv4.conf.all.route_localnet"), "0");
  const off = await start([web({ nodePort: 30080 })], { ...AT_NODE, localhostNodePorts: false });
  assert.deepEqual(off.ask({ from: "node", to: "127.0.0.1", port: 30080 }), { passed: 1 });
  const changes: Partial<FamilySettings> = { relayAddress: "fd00:168::1", localTraffic: { by: "none" } };
  const six = await start([web({ ...SIX, nodePort: 30080 })], changes, "IPv6");
  assert.deepEqual(six.ask({ from: "node", to: "::1", port: 30080 }), { "[fd00:168::1]:41000": 1 });
});

Deno.test("a service port without a relay port, such as one of SCTP, goes to its endpoints as in iptables mode", async () => {
  const { ask } = await start([web({ protocol: "sctp", relay: undefined })]);
  assert.deepEqual(ask({ protocol: "sctp" }), { [TWO[0]!]: 0.5, [TWO[1]!]: 0.5 });
  assert.deepEqual(ask({ protocol: "sctp", from: "outside" }), {
    [TWO[0]! + MASQUERADED]: 0.5,
    [TWO[1]! + MASQUERADED]: 0.5,
  });
});

Deno.test("the mode of iptables takes over all rules, and back", async () => {
  const { create } = await USERSPACE_MODE.load();
  const relayed = await start([web({ nodePort: 30080 })]);
  const dump = relayed.runner.dump();
  const plain = await backendUnderTest(relayed);
  await plain.snapshot([web({ nodePort: 30080, relay: undefined })], podSettings({ localhostNodePorts: false }));
  assert.doesNotMatch(relayed.runner.dump(), /RELAYED|4100/);
  assert.deepEqual(relayed.ask(), { [TWO[0]!]: 0.5, [TWO[1]!]: 0.5 });
  const again = await backendUnderTest(relayed, "IPv4", create);
  await again.snapshot([web({ nodePort: 30080 })], relayed.settings);
  assert.equal(relayed.runner.dump(), dump);
});

Deno.test("new ports of a restarted relay end the UDP flows to the old ones, and no others", async () => {
  const dns = (cluster: number) => fakeServicePort("default/dns", { protocol: "udp", port: 53, relay: { cluster } });
  const { runner, change, clock } = await start([dns(41_002)]);
  const flow = (sourcePort: number, port: number) => ({
    source: "10.244.1.9",
    sourcePort,
    destination: "10.96.0.10",
    destinationPort: 53,
    answeredBy: { address: "192.168.1.1", port },
  });
  runner.conntrack.push(flow(1, 41_002), flow(2, 41_003));
  clock.advance(1_000);
  await change([dns(41_003)]);
  assert.deepEqual(runner.conntrack.map(({ sourcePort }) => sourcePort), [2]);
});

Deno.test("the rules count failures, and leave connections to the relay", async () => {
  const empty = fakeServicePort("default/empty", {
    clusterIP: "10.96.0.11",
    clusterEndpoints: [],
    internal: "reject",
    external: "reject",
  });
  const { runner, backend, change } = await start([web(), empty], { ...AT_NODE, countTraffic: true });
  for (const to of ["10.96.0.10", "10.96.0.11"]) runner.send({ from: "pod-on-node", to, port: 80 });
  await change([web({ relay: { cluster: 41_005 } })]);
  const { ports, failures } = (await backend.readTraffic!())!;
  assert.deepEqual(ports, []);
  assert.deepEqual(failures, [{ port: "default/empty|tcp", reason: "no-endpoints", packets: 1 }]);
});
