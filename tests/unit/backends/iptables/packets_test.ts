/** Packets in iptables mode; tests for all backends are in tests/unit/backends. */
import assert from "node:assert/strict";
import { createIptablesBackend } from "../../../../backends/iptables/backend.ts";
import type { Runner } from "../../../../backends/tools/runner.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { settled } from "../../../fakes/clock.ts";
import { outcomeShares, type PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, createHost, podSettings } from "./host.ts";

const ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet";

Deno.test("a port of a cluster IP without a service is left alone", async () => {
  const host = createHost();
  await (await backendUnderTest(host)).snapshot([fakeServicePort("default/web:http")]);
  const ask = (packet: Partial<PacketRequest>) =>
    outcomeShares(host.runner, { from: "pod-on-node", to: "10.96.0.10", port: 80, ...packet });
  assert.deepEqual(ask({ port: 81 }), { passed: 1 });
  assert.deepEqual(ask({ protocol: "udp" }), { passed: 1 });
});

Deno.test("127.0.0.1 serves node ports only if the settings say so, and then the kernel routes loopback addresses", async () => {
  const on = async (nodePortPrefixes: string[] | undefined, localhostNodePorts: boolean) => {
    const host = createHost();
    const port = fakeServicePort("default/web:http", { nodePort: 30080 });
    await (await backendUnderTest(host)).snapshot([port], podSettings({ nodePortPrefixes, localhostNodePorts }));
    await settled();
    const served = outcomeShares(host.runner, { from: "node", to: "127.0.0.1", port: 30080 })["passed"] === undefined;
    assert.equal(host.runner.sysctls.get(ROUTE_LOCALNET), served ? "1" : "0");
    return served;
  };
  for (const prefixes of [undefined, ["192.168.2.0/24", "127.0.0.0/8"], ["0.0.0.0/0"]]) {
    assert.equal(await on(prefixes, true), true);
    assert.equal(await on(prefixes, false), false);
  }
  assert.equal(await on(["192.168.1.1/32"], false), false);
});

Deno.test("a loopback prefix has node ports at 127.0.0.1, and elsewhere only if it does not contain that", async () => {
  const port = fakeServicePort("default/web:http", { nodePort: 30080 });
  for (
    const [prefix, first, second] of [
      ["127.0.0.0/8", true, false],
      ["127.0.0.1/32", true, false],
      ["127.0.0.2/32", false, true],
      ["0.0.0.0/0", true, true],
    ] as const
  ) {
    const host = createHost();
    const settings = podSettings({ nodePortPrefixes: [prefix, "127.0.0.1/32"].slice(0, first ? 2 : 1) });
    await (await backendUnderTest(host)).snapshot([port], settings);
    const isServed = (to: string) =>
      outcomeShares(host.runner, { from: "node", to, port: 30080 })["passed"] === undefined;
    assert.deepEqual([isServed("127.0.0.1"), isServed("127.0.0.2")], [first, second], prefix);
  }
});

Deno.test("only traffic to node ports at localhost passes the rules that count it", async () => {
  const host = createHost();
  const { snapshot } = await backendUnderTest(host);
  await snapshot([fakeServicePort("default/web:http", { nodePort: 30080 })], podSettings());
  const dump = host.runner.dump();
  assert.match(dump, /^-A KUBE-SERVICES -d 127\.0\.0\.0\/8 .*-m addrtype --dst-type LOCAL -j KUBE-SVC-LOCALHOST$/m);
  assert.match(dump, /^-A KUBE-SERVICES ! -d 127\.0\.0\.0\/8 .*-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS$/m);
  assert.deepEqual(dump.match(/^-A KUBE-SVC-LOCALHOST .*$/gm)!.map((rule) => /-j (\S+)$/.exec(rule)?.[1]), [
    "KUBE-NODEPORTS",
    undefined,
  ]);
  await snapshot([], podSettings({ localhostNodePorts: false, nodePortPrefixes: ["192.168.1.0/24"] }));
  assert.doesNotMatch(host.runner.dump(), /KUBE-SVC-LOCALHOST .*-j/);
  await snapshot([], podSettings({ nodePortPrefixes: ["192.168.1.0/24", "127.0.0.1/32"] }));
  assert.match(host.runner.dump(), /^-A KUBE-SERVICES -d 127\.0\.0\.1\/32 .* -j KUBE-SVC-LOCALHOST$/m);
});

for (const bpf of [true, false]) {
  Deno.test(`hairpin traffic is matched by comparing addresses if the kernel can (xt_bpf: ${bpf})`, async () => {
    const host = createHost({ bpf });
    await (await backendUnderTest(host)).snapshot([fakeServicePort("default/web:http")]);
    assert.equal(host.runner.dump().includes("-m bpf"), bpf);
  });
}

Deno.test("INVALID packets are dropped unless the settings or the host make conntrack liberal", async () => {
  const forwarded = async (conntrackTcpLiberal: boolean, ofHost: number | undefined) => {
    const host = createHost();
    if (ofHost !== undefined) host.runner.sysctls.set("net.netfilter.nf_conntrack_tcp_be_liberal", String(ofHost));
    await (await backendUnderTest(host)).snapshot([], podSettings({ conntrackTcpLiberal }));
    const ask = (state: PacketRequest["state"]) =>
      outcomeShares(host.runner, { from: "outside", to: "10.244.1.9", port: 8080, state });
    for (const state of ["NEW", "ESTABLISHED", "UNTRACKED"] as const) assert.deepEqual(ask(state), { passed: 1 });
    return ask("INVALID")["passed"] === 1;
  };
  assert.equal(await forwarded(false, 0), false);
  assert.equal(await forwarded(false, undefined), false);
  assert.equal(await forwarded(true, 0), true);
  assert.equal(await forwarded(false, 1), true);
});

Deno.test("a slow sysctl does not delay the start, and its value counts from the next sync", async () => {
  const host = createHost();
  host.runner.sysctls.set("net.netfilter.nf_conntrack_tcp_be_liberal", "1");
  const answer = Promise.withResolvers<void>();
  const runner: Runner = {
    async run(call) {
      if (call.tool === "sysctl") await answer.promise;
      return await host.runner.run(call);
    },
  };
  const backend = createIptablesBackend({ family: "IPv4", runner, clock: host.clock, logger: silentLogger });
  const ready = backend.setup();
  await host.clock.advanceSettled(250);
  await ready;
  const settings = podSettings({ localhostNodePorts: false });
  const first = await backend.sync({ revision: 1, base: undefined, settings, set: [], deleted: [] });
  const isForwarded = () =>
    outcomeShares(host.runner, { from: "outside", to: "10.244.1.9", port: 8080, state: "INVALID" })["passed"] === 1;
  assert.equal(isForwarded(), false);
  assert.equal(first.againAfterMs, 1000);
  answer.resolve();
  await settled();
  const again = await backend.sync({ revision: 1, base: 1, settings: undefined, set: [], deleted: [] });
  assert.equal(isForwarded(), true);
  assert.equal(again.againAfterMs, undefined);
});

Deno.test("if a sysctl fails or hangs, the settings decide about INVALID packets", async () => {
  for (const how of ["hangs", "is missing"] as const) {
    const host = createHost();
    host.runner.inject(({ tool }) => tool === "sysctl", { how });
    const ready = backendUnderTest(host);
    await host.clock.advanceSettled(1000);
    const { snapshot } = await ready;
    await snapshot([], podSettings({ localhostNodePorts: false }));
    assert.deepEqual(outcomeShares(host.runner, { from: "outside", to: "10.244.1.9", port: 8080, state: "INVALID" }), {
      dropped: 1,
    });
  }
});

Deno.test("endpoints are picked by weight, with and without session affinity, and weight 0 gets nothing", async () => {
  for (const affinitySeconds of [0, 60]) {
    const host = createHost();
    const port = fakeServicePort("default/web:http", {
      clusterEndpoints: ["10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080", "10.1.0.4:8080"],
      balance: { algorithm: "random", clusterWeights: [5, 0, 2, 3] },
      affinitySeconds,
    });
    await (await backendUnderTest(host)).snapshot([port]);
    assert.deepEqual(outcomeShares(host.runner, { from: "pod-on-node", to: "10.96.0.10", port: 80 }), {
      "10.1.0.1:8080": 0.5,
      "10.1.0.3:8080": 0.2,
      "10.1.0.4:8080": 0.3,
    });
    // Only clients that it served before reach it.
    const rules = host.runner.dump().split("\n").filter((rule) => rule.endsWith("--to-destination 10.1.0.2:8080"));
    assert.deepEqual(rules.filter((rule) => !rule.includes("--update")), []);
  }
});
