/** Services from the tests of kube-proxy's nftables mode that 1.37 added or changed (proxier_test.go, cleanup_test.go). */
import assert from "node:assert/strict";
import type { Family, ServicePort } from "../../../../core/model/mod.ts";
import { joinHostPort } from "../../../../platform/mod.ts";
import { applyStatement } from "../../../fakes/nft_tables.ts";
import { MASQUERADED, outcomeShares, type PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../../../fakes/service_port.ts";
import { BACKENDS, serve } from "../every_backend.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

/** The addresses of a family. */
interface Addresses {
  readonly pods: string;
  readonly service: (number: number) => string;
  readonly endpoint: (number: number) => string;
  readonly external: string;
  readonly balancer: string;
  readonly node: string;
  readonly localhost: string;
  readonly clients: string;
}

const ADDRESSES: Readonly<Record<Family, Addresses>> = {
  IPv4: {
    pods: "10.244.1.0/24",
    service: (number) => `10.96.0.${number}`,
    endpoint: (number) => `10.244.1.${number}`,
    external: "192.0.2.1",
    balancer: "192.0.2.2",
    node: "192.168.1.1",
    localhost: "127.0.0.1",
    clients: "203.0.113.0/24",
  },
  IPv6: {
    pods: "fd00:244:1::/64",
    service: (number) => `fd00:96::${number}`,
    endpoint: (number) => `fd00:244:1::${number}`,
    external: "2001:db8::1",
    balancer: "2001:db8::2",
    node: "fd00:168::1",
    localhost: "::1",
    clients: "2001:db8:113::/64",
  },
};

const NODE_PORT = 30080;

for (const family of ["IPv4", "IPv6"] as const) {
  const { pods, service, endpoint, external, balancer, node, localhost, clients } = ADDRESSES[family];
  const at = (...numbers: readonly number[]) => numbers.map((number) => joinHostPort(endpoint(number), 80));

  /** Serves a service port at `service(1)` with two endpoints, the first of them here; `changes` override that. */
  const asking = async (changes: Partial<ServicePort>) => {
    const under = backendUnderTest(undefined, family);
    const clusterEndpoints = at(1, 2);
    const all = { clusterIP: service(1), clusterEndpoints, endpointsOnThisNode: at(1), ...changes };
    const settings = nftSettings({
      localTraffic: { by: "source-prefix", prefix: pods },
      nodeIP: node,
      nodePortPrefixes: [`${node}/${family === "IPv4" ? 32 : 128}`],
    });
    assert.deepEqual((await under.snapshot([fakeServicePort("ns/svc:p80", all)], settings)).problems, []);
    return (packet: Partial<PacketRequest>) =>
      outcomeShares(under.host, { from: "outside", to: service(1), port: 80, ...packet });
  };
  const [one] = at(1), [two] = at(2);
  const reaches = (target: string | undefined, suffix = "") => ({ [target + suffix]: 1 });
  const half = (suffix = "") => ({ [one + suffix]: 0.5, [two + suffix]: 0.5 });

  const table: readonly (readonly [
    name: string,
    changes: Partial<ServicePort>,
    packets: readonly (readonly [Partial<PacketRequest>, Readonly<Record<string, number>>])[],
  ])[] = [
    ["a cluster IP with one endpoint", { clusterEndpoints: at(1) }, [
      [{ from: "pod-on-node" }, reaches(one)],
      [{}, reaches(one, MASQUERADED)],
      [{ from: { address: endpoint(1), interface: "cni0" } }, reaches(one, MASQUERADED)],
    ]],
    ["a cluster IP with two endpoints", {}, [[{ from: "pod-on-node" }, half()], [{}, half(MASQUERADED)]]],
    ["a load balancer of policy Local without an endpoint here", {
      clusterEndpoints: at(2),
      endpointsOnThisNode: [],
      external: "drop",
      externalIPs: [external],
      loadBalancerIPs: [balancer],
      nodePort: NODE_PORT,
    }, [
      [{}, reaches(two, MASQUERADED)],
      ...[{ to: external }, { to: balancer }, { to: node, port: NODE_PORT }].flatMap((to) =>
        [
          [to, { dropped: 1 }],
          [{ ...to, from: "pod-on-node" }, reaches(two)],
          [{ ...to, from: "node" }, reaches(two, MASQUERADED)],
        ] as const
      ),
    ]],
    ["a node port", { clusterEndpoints: at(1), nodePort: NODE_PORT }, [
      [{ to: node, port: NODE_PORT }, reaches(one, MASQUERADED)],
      [{ to: node, port: NODE_PORT + 1 }, { passed: 1 }],
    ]],
    ["an external IP", { externalIPs: [external] }, [[{ to: external }, half(MASQUERADED)]]],
    ["a load balancer with affinity and source ranges", {
      clusterEndpoints: at(1),
      affinitySeconds: 10_800,
      loadBalancerIPs: [balancer],
      loadBalancerSources: fakeSources([clients], node),
      nodePort: NODE_PORT,
    }, [
      [{ to: balancer }, reaches(one, MASQUERADED)],
      [{ to: balancer, from: "pod-on-node" }, { dropped: 1 }],
      [{ to: node, port: NODE_PORT, from: "pod-on-node" }, reaches(one, MASQUERADED)],
    ]],
    ["a cluster IP without endpoints", { clusterEndpoints: [], internal: "reject", external: "reject" }, [
      [{}, { rejected: 1 }],
    ]],
    // kube-proxy rejects and counts the protocols that it does not forward; here the relay, or a program of the node, has them.
    ...(["tcp", "udp", "sctp"] as const).map((protocol) =>
      [`a node port of ${protocol} at localhost is left alone`, { protocol, nodePort: NODE_PORT }, [
        [{ to: localhost, from: "node", port: NODE_PORT, protocol }, { passed: 1 }],
        [{ to: node, port: NODE_PORT, protocol }, half(MASQUERADED)],
      ]] as const
    ),
  ];

  for (const [name, changes, packets] of table) {
    Deno.test(`kube-proxy's nftables rules: ${name} (${family})`, async () => {
      const ask = await asking(changes);
      for (const [packet, expected] of packets) assert.deepEqual(ask(packet), expected, JSON.stringify(packet));
    });
  }
}

/** Longer than nftables' limit of 128 bytes for a comment, which kube-proxy exceeded before 1.37. */
const LONG_NAME = `${"n".repeat(63)}/${"s".repeat(63)}:${"p".repeat(63)}`;

for (const { name, mode, createKernel } of BACKENDS) {
  Deno.test(`kube-proxy's long names: a service with the longest name is served, with and without endpoints (${name})`, async () => {
    const { snapshot, change, ask } = await serve(mode, createKernel());
    const port = fakeServicePort(LONG_NAME, { nodePort: NODE_PORT, clusterEndpoints: ["10.244.1.1:80"] });
    assert.deepEqual((await snapshot([port])).problems, []);
    assert.deepEqual(ask(), { "10.244.1.1:80": 1 });
    assert.deepEqual(
      (await change([{ ...port, clusterEndpoints: [], internal: "reject", external: "reject" }])).problems,
      [],
    );
    assert.deepEqual(Object.keys(ask()).filter((outcome) => outcome.includes("10.244.1.1")), []);
  });
}

Deno.test("kube-proxy's long names: nothing that nft reads has a comment or a name as long", async () => {
  const { host, snapshot } = backendUnderTest();
  const gone = { clusterEndpoints: [], internal: "reject", external: "reject" } as const;
  await snapshot([
    fakeServicePort(LONG_NAME, { nodePort: NODE_PORT, affinitySeconds: 60 }),
    fakeServicePort(`${LONG_NAME}2`, { clusterIP: "10.96.0.11", ...gone }),
  ]);
  const statements = host.transactions.flat();
  assert.deepEqual(statements.filter((statement) => /\bcomment\b/.test(statement)), []);
  const names = statements.flatMap((statement) => /^add (?:set|map|chain) ip6? \S+ (\S+)/.exec(statement)?.[1] ?? []);
  assert.ok(names.length > 0 && names.every((each) => each.length < 128));
});

Deno.test("kube-proxy's sets of IPv6 clients: they keep their endpoint", async () => {
  const { host, snapshot } = backendUnderTest(undefined, "IPv6");
  const name = "affinity-WFWGYYDE-shop/web/tcp/http__fd00.10..1/80";
  for (
    const statement of [
      "add table ip6 kube-proxy",
      `add set ip6 kube-proxy ${name} { type ipv6_addr; flags dynamic,timeout; timeout 10800s; }`,
      `add element ip6 kube-proxy ${name} { 2001:db8::9 timeout 2h }`,
    ]
  ) applyStatement(host.tables, statement, 0);
  const clusterEndpoints = ["[fd00:10::1]:80", "[fd00:10::2]:80"];
  await snapshot([
    fakeServicePort("shop/web:http", { clusterIP: "fd00:96::1", clusterEndpoints, affinitySeconds: 60 }),
  ]);
  const share = (address: string) =>
    outcomeShares(host, { from: { address, interface: "eth0" }, to: "fd00:96::1", port: 80 });
  assert.deepEqual(share("2001:db8::9"), { [clusterEndpoints[0]! + MASQUERADED]: 1 });
  assert.equal(Object.keys(share("2001:db8::8")).length, 2);
});

Deno.test("kube-proxy's cleanup: a table that is not there is no error, one that cannot be deleted is", async () => {
  for (const family of ["IPv4", "IPv6"] as const) {
    const { host, backend } = backendUnderTest(undefined, family);
    const table = family === "IPv4" ? "ip kube-proxy" : "ip6 kube-proxy";
    await backend.cleanup();
    host.tables.set(table, { sets: new Map(), chains: new Map(), counters: new Map() });
    host.refuses = (statement) => statement === `delete table ${table}` ? "Operation not permitted" : undefined;
    await assert.rejects(backend.cleanup(), /Operation not permitted/);
    host.refuses = () => undefined;
    await backend.cleanup();
    assert.deepEqual([...host.tables.keys()], []);
  }
});
