/** Where packets go: the rules of the table as a packet meets them. */
import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../core/model.ts";
import { type NftOutcome, type NftPacket, sendThrough } from "../../fakes/nft_packet.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

const POD = { from: "10.1.0.7", inInterface: "veth7" };
const NODE = { from: "192.168.1.1" };
const OUTSIDE = { from: "203.0.113.9", inInterface: "eth0" };
const THREE = ["10.1.0.1:8080", "10.1.0.2:8080", "10.2.0.3:8081"];
const NODE_ADDRESSES = ["192.168.1.1", "192.168.2.1", "127.0.0.1"];

/** What becomes of packets to these service ports, for every number that may be drawn: each outcome once, in order. */
async function outcomes(
  ports: readonly ServicePort[],
  settings: FamilySettings = nftSettings(),
): Promise<(packet: Partial<NftPacket>) => readonly string[]> {
  const { whole, table } = backendUnderTest();
  const { problems } = await whole(ports, settings);
  assert.deepEqual(problems, []);
  return (changes) => {
    const packet: NftPacket = { ...POD, to: "10.96.0.10", protocol: "tcp", port: 80, ...changes };
    if (changes.from !== undefined && !("inInterface" in changes)) {
      delete (packet as { inInterface?: string }).inInterface;
    }
    const seen = new Set<string>();
    for (let draw = 0; draw < 3; draw++) {
      seen.add(told(sendThrough(table(), packet, { nodeAddresses: NODE_ADDRESSES, random: (n) => draw % n })));
    }
    return [...seen];
  };
}

function told(outcome: NftOutcome): string {
  return outcome.kind === "delivered" ? `${outcome.to}${outcome.masqueraded ? " masqueraded" : ""}` : outcome.kind;
}

const web = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/web:http", { clusterEndpoints: THREE, external: "reject", ...changes });

const PLAIN = ["10.1.0.1 . 8080", "10.1.0.2 . 8080", "10.2.0.3 . 8081"];
const MASQUERADED = PLAIN.map((endpoint) => `${endpoint} masqueraded`);

Deno.test("a cluster IP leads to each endpoint; only what comes from elsewhere is masqueraded", async () => {
  const ask = await outcomes([web()]);
  assert.deepEqual(ask({}), PLAIN);
  assert.deepEqual(ask(OUTSIDE), MASQUERADED);
  assert.deepEqual(ask(NODE), MASQUERADED);
});

Deno.test("whose traffic is masqueraded follows from how local traffic is told", async () => {
  const ports = [web({ clusterEndpoints: ["10.1.0.1:80"] })];
  const plain = ["10.1.0.1 . 80"], masqueraded = ["10.1.0.1 . 80 masqueraded"];
  const all = await outcomes(ports, nftSettings({ masqueradeAll: true }));
  assert.deepEqual(all({}), masqueraded);
  const none = await outcomes(ports, nftSettings({ localTraffic: { by: "none" } }));
  assert.deepEqual(none(OUTSIDE), plain);
  const bridge = await outcomes(ports, nftSettings({ localTraffic: { by: "bridge", interface: "cbr0" } }));
  assert.deepEqual(bridge({ inInterface: "cbr0" }), plain);
  assert.deepEqual(bridge({ inInterface: "cbr01" }), masqueraded);
  const prefix = await outcomes(ports, nftSettings({ localTraffic: { by: "interface-prefix", prefix: "veth" } }));
  assert.deepEqual(prefix({ inInterface: "veth7" }), plain);
  assert.deepEqual(prefix(OUTSIDE), masqueraded);
  const everything = await outcomes(ports, nftSettings({ localTraffic: { by: "source-prefix", prefix: "0.0.0.0/0" } }));
  assert.deepEqual(everything(OUTSIDE), plain);
});

Deno.test("a pod of this node that reaches itself is masqueraded, one that reaches another is not", async () => {
  const ask = await outcomes([web({ endpointsOnThisNode: ["10.1.0.1:8080"] })]);
  assert.deepEqual(ask({ ...POD, from: "10.1.0.1", inInterface: "veth1" }), [MASQUERADED[0], ...PLAIN.slice(1)]);
});

Deno.test("protocols and ports are told apart, and a port that no service has is refused", async () => {
  const udp = fakeServicePort("default/dns:dns", { protocol: "udp", port: 53, clusterEndpoints: ["10.1.0.5:5353"] });
  const sctp = fakeServicePort("default/sig:sig", { protocol: "sctp", port: 80, clusterEndpoints: ["10.1.0.6:9"] });
  const ask = await outcomes([web(), udp, sctp]);
  assert.deepEqual(ask({ protocol: "udp", port: 53 }), ["10.1.0.5 . 5353"]);
  assert.deepEqual(ask({ protocol: "sctp" }), ["10.1.0.6 . 9"]);
  assert.deepEqual(ask({ port: 53 }), ["rejected"]);
  assert.deepEqual(ask({ ...NODE, port: 81 }), ["rejected"]);
  assert.deepEqual(ask({ to: "10.96.0.11", port: 81 }), ["10.96.0.11 . 81"]);
});

Deno.test("without endpoints a frontend is refused, without one here it does not answer", async () => {
  const none = web({ clusterEndpoints: [], internal: "reject", nodePort: 30080, externalIPs: ["198.51.100.7"] });
  const askNone = await outcomes([none]);
  for (const source of [POD, NODE, OUTSIDE]) {
    assert.deepEqual(askNone(source), ["rejected"]);
    assert.deepEqual(askNone({ ...source, to: "198.51.100.7" }), ["rejected"]);
  }
  assert.deepEqual(askNone({ ...OUTSIDE, to: "192.168.1.1", port: 30080 }), ["rejected"]);
  assert.deepEqual(askNone({ ...OUTSIDE, to: "192.168.1.1", port: 30081 }), ["192.168.1.1 . 30081"]);
  const remote = await outcomes([web({ internal: "drop", clusterEndpoints: [] })]);
  assert.deepEqual(remote({}), ["dropped"]);
});

Deno.test("external addresses and node ports are masqueraded under policy Cluster", async () => {
  const ask = await outcomes([
    web({ external: "cluster", nodePort: 30080, externalIPs: ["198.51.100.7"], loadBalancerIPs: ["198.51.100.8"] }),
  ]);
  for (const to of ["198.51.100.7", "198.51.100.8"]) {
    assert.deepEqual(ask({ ...OUTSIDE, to }), MASQUERADED);
    assert.deepEqual(ask({ to }), MASQUERADED);
  }
  assert.deepEqual(ask({ ...OUTSIDE, to: "192.168.1.1", port: 30080 }), MASQUERADED);
});

Deno.test("node ports are on the addresses that they are to be on, never on loopback", async () => {
  const ports = [web({ external: "cluster", nodePort: 30080, clusterEndpoints: ["10.1.0.1:8080"] })];
  const to = (address: string) => ({ ...OUTSIDE, to: address, port: 30080 });
  const served = [MASQUERADED[0]];
  const primary = await outcomes(ports);
  assert.deepEqual(primary(to("192.168.2.1")), ["192.168.2.1 . 30080"]);
  const second = await outcomes(ports, nftSettings({ nodePortPrefixes: ["192.168.2.0/24", "127.0.0.0/8"] }));
  assert.deepEqual(second(to("192.168.1.1")), ["192.168.1.1 . 30080"]);
  assert.deepEqual(second(to("192.168.2.1")), served);
  assert.deepEqual(second(to("192.168.2.9")), ["192.168.2.9 . 30080"]);
  assert.deepEqual(second({ ...NODE, to: "127.0.0.1", port: 30080 }), ["127.0.0.1 . 30080"]);
  for (const nodePortPrefixes of [undefined, ["0.0.0.0/0"]]) {
    const all = await outcomes(ports, nftSettings({ nodePortPrefixes }));
    assert.deepEqual(all(to("192.168.2.1")), served);
    assert.deepEqual(all({ ...NODE, to: "127.0.0.1", port: 30080 }), ["127.0.0.1 . 30080"]);
  }
});

for (const affinitySeconds of [0, 60]) {
  const how = affinitySeconds === 0 ? "" : ", with affinity as well";

  Deno.test(`policy Local keeps the source and this node's own traffic takes the short cut${how}`, async () => {
    const ask = await outcomes([
      web({
        affinitySeconds,
        external: "local",
        localEndpoints: ["10.1.0.1:8080"],
        nodePort: 30080,
        loadBalancerIPs: ["198.51.100.8"],
        clusterEndpoints: ["10.2.0.3:8081"],
      }),
    ]);
    for (const frontend of [{ to: "198.51.100.8" }, { to: "192.168.1.1", port: 30080 }]) {
      assert.deepEqual(ask({ ...OUTSIDE, ...frontend }), ["10.1.0.1 . 8080"]);
      assert.deepEqual(ask({ ...POD, ...frontend }), ["10.2.0.3 . 8081"]);
      assert.deepEqual(ask({ ...NODE, ...frontend }), ["10.2.0.3 . 8081 masqueraded"]);
    }
  });

  Deno.test(`policy Local without an endpoint here drops all but this node's own traffic${how}`, async () => {
    const ask = await outcomes([
      web({ affinitySeconds, external: "drop", nodePort: 30080, clusterEndpoints: ["10.2.0.3:8081"] }),
    ]);
    const frontend = { to: "192.168.1.1", port: 30080 };
    assert.deepEqual(ask({ ...OUTSIDE, ...frontend }), ["dropped"]);
    assert.deepEqual(ask({ ...POD, ...frontend }), ["10.2.0.3 . 8081"]);
  });
}

Deno.test("policy Local without any endpoint drops", async () => {
  const ask = await outcomes([
    web({ external: "drop", internal: "reject", loadBalancerIPs: ["198.51.100.8"], clusterEndpoints: [] }),
  ]);
  assert.deepEqual(ask({ ...OUTSIDE, to: "198.51.100.8" }), ["dropped"]);
  assert.deepEqual(ask({}), ["rejected"]);
});

Deno.test("source ranges let in who is listed, to load balancer addresses alone", async () => {
  const ask = await outcomes([
    web({
      external: "cluster",
      nodePort: 30080,
      clusterEndpoints: ["10.1.0.1:8080"],
      loadBalancerIPs: ["198.51.100.8", "198.51.100.7"],
      externalIPs: ["198.51.100.7"],
      sourceRanges: ["203.0.113.0/24", "203.0.113.128/25", "192.168.1.1/32"],
    }),
  ]);
  const served = [MASQUERADED[0]];
  assert.deepEqual(ask({ ...OUTSIDE, to: "198.51.100.8" }), served);
  assert.deepEqual(ask({ ...OUTSIDE, from: "203.0.114.9", inInterface: "eth0", to: "198.51.100.8" }), ["dropped"]);
  assert.deepEqual(ask({ ...POD, to: "198.51.100.8" }), ["dropped"]);
  assert.deepEqual(ask({ ...NODE, to: "198.51.100.8" }), served);
  assert.deepEqual(ask({ from: "198.51.100.8", to: "198.51.100.8" }), served);
  assert.deepEqual(ask({ ...POD, to: "198.51.100.7" }), served);
  assert.deepEqual(ask({ ...POD, to: "192.168.1.1", port: 30080 }), served);
});

Deno.test("source ranges that hold everything let everybody in", async () => {
  const ask = await outcomes([
    web({ external: "cluster", loadBalancerIPs: ["198.51.100.8"], sourceRanges: ["10.0.0.0/8", "0.0.0.0/0"] }),
  ]);
  assert.deepEqual(ask({ ...OUTSIDE, to: "198.51.100.8" }), MASQUERADED);
});

Deno.test("a client stays with its endpoint on every way in, until the endpoint is gone", async () => {
  const { whole, change, table } = backendUnderTest();
  const port = web({ affinitySeconds: 60, external: "cluster", nodePort: 30080 });
  await whole([port]);
  const send = (packet: Partial<NftPacket>, draw: number) =>
    told(sendThrough(table(), { ...POD, to: "10.96.0.10", protocol: "tcp", port: 80, ...packet }, {
      nodeAddresses: NODE_ADDRESSES,
      random: (n) => draw % n,
    }));
  const first = send({}, 1);
  assert.equal(send({}, 0), first);
  assert.equal(send({ to: "192.168.1.1", port: 30080 }, 0), `${first} masqueraded`);
  await change([{ ...port, clusterEndpoints: [...THREE, "10.1.0.9:8080"] }]);
  assert.equal(send({}, 0), first, "a new endpoint moved a client");
  const rest = THREE.filter((endpoint) => !first.startsWith(endpoint.slice(0, endpoint.indexOf(":"))));
  await change([{ ...port, clusterEndpoints: rest }]);
  assert.ok(rest.includes(send({}, 0).replace(" . ", ":")));
});

Deno.test("the family of IPv6 is served in its own table", async () => {
  const { whole, table } = backendUnderTest(undefined, "IPv6");
  const settings = nftSettings({
    nodeIP: "fd00:2::1",
    localTraffic: { by: "source-prefix", prefix: "fd00:1::/64" },
    nodePortPrefixes: ["fd00:2::1/128"],
  });
  const { problems } = await whole([
    web({
      clusterIP: "fd00:96::a",
      clusterEndpoints: ["[fd00:1::1]:8080"],
      endpointsOnThisNode: ["[fd00:1::1]:8080"],
      external: "cluster",
      nodePort: 30080,
    }),
    web({
      name: "default/sticky",
      clusterIP: "fd00:96::b",
      affinitySeconds: 5,
      clusterEndpoints: ["[fd00:1::2]:8080"],
    }),
  ], settings);
  assert.deepEqual(problems, []);
  const ask = (from: string, to: string, port = 80) =>
    told(sendThrough(table(), { from, to, protocol: "tcp", port, inInterface: "eth0" }, {
      nodeAddresses: ["fd00:2::1"],
      random: () => 0,
    }));
  assert.equal(ask("fd00:1::7", "fd00:96::a"), "fd00:1::1 . 8080");
  assert.equal(ask("fd00:1::1", "fd00:96::a"), "fd00:1::1 . 8080 masqueraded");
  assert.equal(ask("fd00:9::7", "fd00:96::a"), "fd00:1::1 . 8080 masqueraded");
  assert.equal(ask("fd00:9::7", "fd00:2::1", 30080), "fd00:1::1 . 8080 masqueraded");
  assert.equal(ask("fd00:1::7", "fd00:96::b"), "fd00:1::2 . 8080");
  assert.equal(ask("fd00:1::7", "fd00:96::b", 81), "rejected");
});
