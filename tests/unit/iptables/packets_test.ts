/** Where packets go: the rules of the tables as a packet meets them. */
import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../core/model.ts";
import type { PacketRequest } from "../../fakes/runner.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";
import { backendUnderTest, createHost, type Host, podSettings } from "./host.ts";

const THREE = ["10.244.1.1:8080", "10.244.1.2:8080", "10.244.2.3:8081"];
const third = (suffix = "") => Object.fromEntries(THREE.map((endpoint) => [endpoint + suffix, 0.3333]));
const MASQUERADED = " masqueraded";

type Ask = (packet: Partial<PacketRequest>) => Readonly<Record<string, number>>;

/** Tells the share of packets that end in each way: `ENDPOINT`, `ENDPOINT masqueraded`, or what else became of them. */
function asker({ runner }: Host): Ask {
  return (changes) => {
    const shares: Record<string, number> = {};
    for (
      const { outcome, share } of runner.outcomes({ from: "pod-on-node", to: "10.96.0.10", port: 80, ...changes })
    ) {
      const { verdict, destination, masqueraded } = outcome;
      const told = verdict === "delivered" ? destination + (masqueraded ? MASQUERADED : "") : verdict;
      shares[told] = (shares[told] ?? 0) + share;
    }
    return Object.fromEntries(Object.entries(shares).map(([told, share]) => [told, Number(share.toFixed(4))]));
  };
}

async function served(
  ports: readonly ServicePort[],
  settings: FamilySettings = podSettings(),
  host: Host = createHost(),
): Promise<Ask> {
  const { whole } = await backendUnderTest(host);
  assert.deepEqual((await whole(ports, settings)).problems, []);
  return asker(host);
}

const web = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/web:http", { clusterEndpoints: THREE, ...changes });
const one = (changes: Partial<ServicePort> = {}) => web({ clusterEndpoints: [THREE[0]!], ...changes });
const PLAIN = { [THREE[0]!]: 1 }, ONE_MASQUERADED = { [THREE[0]! + MASQUERADED]: 1 };

Deno.test("a cluster IP's endpoints have equal shares; what does not come from a pod of this node is masqueraded", async () => {
  const ask = await served([web()]);
  assert.deepEqual(ask({}), third());
  assert.deepEqual(ask({ from: "outside" }), third(MASQUERADED));
  assert.deepEqual(ask({ from: "node" }), third(MASQUERADED));
  assert.deepEqual(ask({ port: 81 }), { passed: 1 });
  assert.deepEqual(ask({ protocol: "udp" }), { passed: 1 });
  const all = await served([web()], podSettings({ masqueradeAll: true }));
  assert.deepEqual(all({}), third(MASQUERADED));
});

Deno.test("another mark serves as well, and only that bit of a packet's mark is touched", async () => {
  const host = createHost();
  await served([one()], podSettings({ masqueradeMark: 0x20 }), host);
  const [first] = host.runner.outcomes({ from: "outside", to: "10.96.0.10", port: 80, mark: 0x4001 });
  assert.equal(first!.outcome.masqueraded, true);
  assert.equal(first!.outcome.mark, 0x4001);
});

Deno.test("without endpoints a frontend is refused, without one here it does not answer", async () => {
  const gone = { clusterEndpoints: [], nodePort: 30080, externalIPs: ["192.0.2.1"], loadBalancerIPs: ["192.0.2.2"] };
  for (const [verdict, outcome] of [["reject", "rejected"], ["drop", "dropped"]] as const) {
    const ask = await served([web({ ...gone, internal: verdict, external: verdict })]);
    for (const from of ["pod-on-node", "outside", "node"] as const) {
      assert.deepEqual(ask({ from }), { [outcome]: 1 }, `${verdict} ${from}`);
    }
    for (const to of ["192.0.2.1", "192.0.2.2"]) assert.deepEqual(ask({ from: "outside", to }), { [outcome]: 1 });
    assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30080 }), { [outcome]: 1 });
    assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30081 }), { passed: 1 });
  }
});

Deno.test("node ports are on the addresses that they are to be on", async () => {
  const surroundings = { nodeAddresses: ["192.168.1.1", "192.168.2.1"] };
  const ports = [one({ nodePort: 30080 })];
  const on = async (nodePortPrefixes: string[] | undefined, localhostNodePorts = true) => {
    const host = createHost(surroundings);
    const ask = await served(ports, podSettings({ nodePortPrefixes, localhostNodePorts }), host);
    const addresses = ["192.168.1.1", "192.168.2.1", "192.168.3.1"];
    const outside = addresses.filter((to) => !ask({ from: "outside", to, port: 30080 })["passed"]);
    const loopback = ask({ from: "node", to: "127.0.0.1", port: 30080 });
    assert.deepEqual(ask({ from: "outside", to: "192.168.3.1", port: 30080 }), { passed: 1 });
    return { outside, loopback: !loopback["passed"], routed: host.runner.sysctls.get(ROUTE_LOCALNET) === "1" };
  };
  const both = ["192.168.1.1", "192.168.2.1"];
  assert.deepEqual(await on(undefined), { outside: both, loopback: true, routed: true });
  assert.deepEqual(await on(undefined, false), { outside: both, loopback: false, routed: false });
  assert.deepEqual(await on(["192.168.1.1/32"]), { outside: ["192.168.1.1"], loopback: false, routed: false });
  assert.deepEqual(await on(["192.168.2.0/24", "127.0.0.0/8"]), {
    outside: ["192.168.2.1"],
    loopback: true,
    routed: true,
  });
  assert.deepEqual(await on(["192.168.2.0/24", "127.0.0.0/8"], false), {
    outside: ["192.168.2.1"],
    loopback: false,
    routed: false,
  });
  assert.deepEqual(await on(["0.0.0.0/0"]), { outside: both, loopback: true, routed: true });
});

const ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet";

Deno.test("external addresses and node ports are masqueraded under policy Cluster", async () => {
  const ask = await served([web({ nodePort: 30080, externalIPs: ["192.0.2.1"], loadBalancerIPs: ["192.0.2.2"] })]);
  for (const from of ["outside", "pod-on-node", "node"] as const) {
    for (const to of ["192.0.2.1", "192.0.2.2"]) assert.deepEqual(ask({ from, to }), third(MASQUERADED));
  }
  assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30080 }), third(MASQUERADED));
  assert.deepEqual(ask({}), third());
});

Deno.test("under policy Local clients outside keep their address and reach this node's endpoints, others reach all", async () => {
  const local = {
    external: "local",
    localEndpoints: [THREE[0]!],
    nodePort: 30080,
    externalIPs: ["192.0.2.1"],
  } as const;
  const ask = await served([web(local)]);
  const dropping = await served([web({ ...local, external: "drop", localEndpoints: [] })]);
  for (const frontend of [{ to: "192.168.1.1", port: 30080 }, { to: "192.0.2.1" }]) {
    assert.deepEqual(ask({ ...frontend, from: "outside" }), PLAIN);
    assert.deepEqual(dropping({ ...frontend, from: "outside" }), { dropped: 1 });
    for (const asked of [ask, dropping]) {
      assert.deepEqual(asked({ ...frontend, from: "pod-on-node" }), third());
      assert.deepEqual(asked({ ...frontend, from: "node" }), third(MASQUERADED));
    }
  }
  // The cluster IP's own policy stays as it is.
  assert.deepEqual(ask({ from: "outside" }), third(MASQUERADED));
});

Deno.test("a load balancer address lets in the sources that are listed, and drops others", async () => {
  const ask = await served([
    one({ loadBalancerIPs: ["192.0.2.2"], externalIPs: ["192.0.2.1"], sourceRanges: ["203.0.113.0/24"] }),
  ]);
  const from = (address: string) => ({ from: { address, interface: "eth0" }, to: "192.0.2.2" });
  assert.deepEqual(ask(from("203.0.113.9")), ONE_MASQUERADED);
  assert.deepEqual(ask(from("198.51.100.9")), { dropped: 1 });
  assert.deepEqual(ask({ from: "node", to: "192.0.2.2" }), { dropped: 1 });
  // The ranges are for load balancer addresses alone.
  assert.deepEqual(ask({ ...from("198.51.100.9"), to: "192.0.2.1" }), ONE_MASQUERADED);
  assert.deepEqual(ask({}), PLAIN);
});

Deno.test("with affinity a client stays with its endpoint until its time is over, others are spread", async () => {
  const host = createHost();
  const ask = await served([web({ affinitySeconds: 60 })], podSettings(), host);
  assert.deepEqual(ask({}), third());
  const { destination } = host.runner.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  assert.deepEqual(ask({}), { [destination]: 1 });
  assert.deepEqual(ask({ from: { address: "10.244.1.9", interface: "cni0" } }), third());
  host.clock.advance(59_000);
  host.runner.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  host.clock.advance(59_000);
  assert.deepEqual(ask({}), { [destination]: 1 });
  host.clock.advance(62_000);
  assert.deepEqual(ask({}), third());
});

for (const bpf of [true, false]) {
  Deno.test(`a pod that reaches itself is masqueraded, one that reaches another is not (xt_bpf: ${bpf})`, async () => {
    const host = createHost({ bpf });
    const ask = await served([web({ endpointsOnThisNode: THREE.slice(0, 2) })], podSettings(), host);
    assert.deepEqual(ask({ from: { address: "10.244.1.1", interface: "cni0" } }), {
      [THREE[0]! + MASQUERADED]: 0.3333,
      [THREE[1]!]: 0.3333,
      [THREE[2]!]: 0.3333,
    });
    assert.equal(host.runner.dump().includes("-m bpf"), bpf);
  });
}

Deno.test("each of several hundred services is led to its own endpoint, and nothing else is led anywhere", async () => {
  const ports = Array.from({ length: 400 }, (_, i) =>
    fakeServicePort(`default/s${i}:p`, {
      // Some share an address, some are far from all others.
      clusterIP: i % 7 === 0
        ? "10.96.0.1"
        : i % 5 === 0
        ? `10.${100 + i % 100}.${i >> 8}.9`
        : `10.96.${i >> 6}.${i & 63}`,
      port: 1000 + i,
      nodePort: 30000 + i,
      clusterEndpoints: [`10.244.${i >> 7}.${i & 127}:${2000 + i}`],
    }));
  const ask = await served(ports);
  for (const { clusterIP, port, nodePort, clusterEndpoints } of ports) {
    assert.deepEqual(ask({ to: clusterIP, port }), { [clusterEndpoints[0]!]: 1 });
    assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: nodePort }), {
      [clusterEndpoints[0]! + MASQUERADED]: 1,
    });
    assert.deepEqual(ask({ to: clusterIP, port: port + 1000 }), { passed: 1 });
  }
});

Deno.test("IPv6 is served in the same way, but for node ports on loopback", async () => {
  const host = createHost();
  const { whole } = await backendUnderTest(host, "IPv6");
  const endpoints = ["[fd00:244:1::1]:8080", "[fd00:244:2::2]:8080"];
  const six = fakeServicePort("default/web:http", {
    clusterIP: "fd00:10:96::a",
    clusterEndpoints: endpoints,
    endpointsOnThisNode: endpoints.slice(0, 1),
    loadBalancerIPs: ["2001:db8::2"],
    sourceRanges: ["2001:db8:113::/64"],
    nodePort: 30080,
  });
  const gone = {
    ...six,
    name: "default/gone:p",
    clusterIP: "fd00:10:96::b",
    internal: "reject" as const,
    external: "reject" as const,
    nodePort: 0,
    loadBalancerIPs: [],
    clusterEndpoints: [],
  };
  const localTraffic = { by: "source-prefix", prefix: "fd00:244:1::/64" } as const;
  assert.deepEqual((await whole([six, gone], podSettings({ localTraffic, nodeIP: "fd00:168::1" }))).problems, []);
  const ask = asker(host);
  const half = (suffix = "") => Object.fromEntries(endpoints.map((endpoint) => [endpoint + suffix, 0.5]));
  const to = "fd00:10:96::a";
  assert.deepEqual(ask({ to }), half());
  assert.deepEqual(ask({ to, from: "outside" }), half(MASQUERADED));
  assert.deepEqual(ask({ to, from: { address: "fd00:244:1::1", interface: "cni0" } }), {
    [endpoints[0]! + MASQUERADED]: 0.5,
    [endpoints[1]!]: 0.5,
  });
  assert.deepEqual(ask({ to: "fd00:10:96::b" }), { rejected: 1 });
  assert.deepEqual(ask({ to: "2001:db8::2", from: "outside" }), half(MASQUERADED));
  assert.deepEqual(ask({ to: "2001:db8::2", from: { address: "2001:db9::1", interface: "eth0" } }), { dropped: 1 });
  assert.deepEqual(ask({ to: "fd00:168::1", port: 30080, from: "outside" }), half(MASQUERADED));
  assert.deepEqual(ask({ to: "::1", port: 30080, from: "node" }), { passed: 1 });
});
