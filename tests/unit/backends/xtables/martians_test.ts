/** Packets from other hosts and pods to loopback addresses, on a kernel that routes those (CVE-2020-8558). */
import assert from "node:assert/strict";
import type { BackendOptions } from "../../../../backends/contract/backend.ts";
import { writeHostSettings } from "../../../../backends/xtables/martians.ts";
import { loadBackend } from "../../../../backends/registry.ts";
import { compareWithKernel } from "../../../../backends/dry_run/mod.ts";
import type { ProxyMode } from "../../../../core/model/mod.ts";
import { createLogger, silentLogger } from "../../../../platform/log.ts";
import { settled } from "../../../fakes/clock.ts";
import { outcomeShares, type PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { commonSettings } from "../every_backend.ts";
import { createIpvsHost } from "../ipvs/host.ts";
import { backendUnderTest, createHost, type Host, podSettings, tamper } from "../iptables/host.ts";

const ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet";
const PORT = fakeServicePort("default/web:http", { nodePort: 30080 });

/** The fate of a packet to a program that listens on 127.0.0.1. */
function ask({ runner }: Host, packet: Partial<PacketRequest> = {}): Record<string, number> {
  return outcomeShares(runner, { from: "pod-on-node", to: "127.0.0.1", port: 53, protocol: "udp", ...packet });
}

/** The calls that write rules or settings, in order. */
function writes({ runner }: Host): string[] {
  return runner.calls.flatMap(({ tool, args }) =>
    tool === "sysctl" ? args.includes("-w") ? [args.at(-1)!] : [] : tool === "iptables-restore" ? [tool] : []
  );
}

Deno.test("martians are dropped; packets of the node itself, and what others direct to a loopback address, pass", async () => {
  for (const localhostNodePorts of [true, false]) {
    const host = createHost();
    await tamper(host, "*filter", "-A INPUT -j ACCEPT", "COMMIT", "*mangle", "-A PREROUTING -j ACCEPT", "COMMIT");
    await (await backendUnderTest(host)).snapshot([PORT], podSettings({ localhostNodePorts }));
    for (const from of ["pod-on-node", "outside", { address: "127.0.0.1", interface: "eth0" }] as const) {
      assert.deepEqual(ask(host, { from }), { dropped: 1 });
      assert.deepEqual(ask(host, { from, to: "127.7.7.7", protocol: "tcp" }), { dropped: 1 });
      for (const state of ["INVALID", "ESTABLISHED", "UNTRACKED"] as const) {
        assert.deepEqual(ask(host, { from, state }), { dropped: 1 });
      }
    }
    assert.deepEqual(ask(host, { from: "node" }), { passed: 1 });
    assert.deepEqual(ask(host, { to: "192.168.1.1" }), { passed: 1 });
    // Packets that another program redirects to a loopback address must arrive.
    const redirection = "-A PREROUTING -d 169.254.20.10/32 -p udp -j DNAT --to-destination 127.0.0.1:53";
    await tamper(host, "*nat", redirection, "COMMIT");
    assert.deepEqual(ask(host, { to: "169.254.20.10" }), { "127.0.0.1:53": 1 });
  }
});

Deno.test("loopback addresses are routed once martians are dropped, even if that takes two tries", async () => {
  const host = createHost();
  const { snapshot, change } = await backendUnderTest(host);
  const lock = { how: "exits", exitCode: 4, stderr: "Another app is currently holding the xtables lock" } as const;
  host.runner.inject(({ tool }) => tool === "iptables-restore", lock, 1);
  await assert.rejects(snapshot([PORT]), /xtables lock/);
  assert.equal(host.runner.sysctls.get(ROUTE_LOCALNET), "0");
  host.runner.forgetCalls();
  await change([]);
  await settled();
  assert.deepEqual(writes(host), ["iptables-restore", "iptables-restore", `${ROUTE_LOCALNET}=1`]);
  assert.deepEqual(ask(host), { dropped: 1 });
  assert.deepEqual(ask(host, { from: "node", port: 30080, protocol: "tcp" }), { "10.1.0.1:8080 masqueraded": 1 });
});

Deno.test("the setting is looked at after the settings of node ports have changed, not with each sync", async () => {
  const host = createHost();
  const { snapshot, change } = await backendUnderTest(host);
  await snapshot([PORT]);
  await settled();
  host.runner.forgetCalls();
  await change([]);
  await settled();
  assert.deepEqual(host.runner.calls.filter(({ tool }) => tool === "sysctl"), []);
});

Deno.test("martians that another program lets pass in mangle are dropped where they enter the node", async () => {
  const host = createHost();
  await (await backendUnderTest(host)).snapshot([PORT], podSettings({ localhostNodePorts: false }));
  await tamper(host, "*mangle", "-I PREROUTING -j ACCEPT", "COMMIT");
  assert.deepEqual(ask(host), { dropped: 1 });
  assert.deepEqual(ask(host, { state: "ESTABLISHED" }), { passed: 1 });
});

Deno.test("a deleted martian rule is restored", async () => {
  const host = createHost();
  const { snapshot, backend } = await backendUnderTest(host);
  await snapshot([PORT]);
  for (const line of ["-F KUBE-MARTIANS", "-F PREROUTING"]) {
    await tamper(host, "*mangle", line, "COMMIT", "*filter", line.replace("PREROUTING", "INPUT"), "COMMIT");
    assert.deepEqual(ask(host), { passed: 1 });
    await backend.resync();
    assert.deepEqual(ask(host), { dropped: 1 });
  }
});

Deno.test("the note that the setting is ours is restored with deleted rules, as long as this process knows", async () => {
  const host = createHost();
  const { snapshot, backend } = await backendUnderTest(host);
  await snapshot([PORT]);
  await settled();
  const hasNote = () => host.runner.dump().includes("KUBE-MARTIANS-SET");
  assert.ok(hasNote());
  await tamper(host, "*filter", "-X KUBE-MARTIANS-SET", "COMMIT", "*mangle", "-F KUBE-MARTIANS", "COMMIT");
  assert.ok(!hasNote());
  await backend.resync();
  assert.ok(hasNote());
});

Deno.test("the kubelet's KUBE-FIREWALL stays and does not count as drift", async () => {
  const host = createHost();
  const kubelet = [
    "-A INPUT -j KUBE-FIREWALL",
    "-A OUTPUT -j KUBE-FIREWALL",
    "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment " +
    '"block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
  ];
  await tamper(host, "*filter", ":KUBE-FIREWALL - [0:0]", ...kubelet, "COMMIT");
  const before = host.runner.dump();
  const { snapshot, backend } = await backendUnderTest(host);
  const settings = commonSettings("iptables");
  await snapshot([PORT], settings);
  assert.equal((await backend.resync()).counts["drift_repaired"], 0);
  const state = { revision: 1, base: undefined, settings, set: [PORT], deleted: [] };
  assert.deepEqual(await compareWithKernel({ family: "IPv4", state, clock: host.clock }, host.runner), []);
  await settled();
  await (await loadBackend("iptables", { family: "IPv4", ...host, logger: silentLogger })).cleanup();
  assert.equal(host.runner.dump(), before);
});

/** The state after a cleanup on a host whose setting was `before` when iptables mode, and then IPVS mode, served there. */
async function afterCleanup(before: 0 | 1, spoil: (host: Host) => void = () => {}) {
  const warnings: string[] = [];
  const host = createIpvsHost({ sysctls: { [ROUTE_LOCALNET]: before } });
  const write = (line: string) => void warnings.push(line);
  const logger = createLogger({ level: "warn", format: "text", clock: host.clock, write });
  const run = async (mode: ProxyMode) => {
    const backend = await loadBackend(mode, { family: "IPv4", ...host, logger });
    await backend.setup();
    const settings = commonSettings(mode, { localhostNodePorts: true, nodePortPrefixes: undefined });
    await backend.sync({ revision: 1, base: undefined, settings, set: [PORT], deleted: [] });
    await settled();
    return backend;
  };
  await run("iptables");
  // A restart finds the setting as it left it.
  await run("iptables");
  const backend = await run("ipvs");
  assert.ok(!host.runner.chains("IPv4", "filter").includes("KUBE-EXTERNAL-SERVICES"));
  assert.equal(host.runner.sysctls.get(ROUTE_LOCALNET), "1");
  assert.deepEqual(ask(host), { dropped: 1 });
  assert.equal(warnings.length, 0);
  spoil(host);
  await backend.cleanup();
  const chains = (["mangle", "filter", "nat"] as const).flatMap((table) => host.runner.chains("IPv4", table));
  return {
    martians: ask(host),
    setting: host.runner.sysctls.get(ROUTE_LOCALNET),
    chains: chains.filter((chain) => chain.startsWith("KUBE-")),
    warnings,
  };
}

Deno.test("a takeover by another mode keeps the martian rule; a cleanup resets route_localnet, and removes the rule", async () => {
  assert.deepEqual(await afterCleanup(0), { martians: { passed: 1 }, setting: "0", chains: [], warnings: [] });
});

Deno.test("a cleanup keeps the martian rule, and says so, if another program has set route_localnet", async () => {
  const { warnings: [warning, ...others], ...left } = await afterCleanup(1);
  assert.deepEqual(left, { martians: { dropped: 1 }, setting: "1", chains: ["KUBE-MARTIANS", "KUBE-MARTIANS"] });
  assert.match(warning!, new RegExp(`the rules that drop .* stay .*another program.*sysctl -w ${ROUTE_LOCALNET}=0`));
  assert.deepEqual(others, []);
});

Deno.test("a cleanup keeps the martian rule, and says so, if route_localnet cannot be reset", async () => {
  const { warnings, ...left } = await afterCleanup(0, ({ runner }) => runner.refusingSysctls.add(ROUTE_LOCALNET));
  assert.deepEqual(left, {
    martians: { dropped: 1 },
    setting: "1",
    chains: ["KUBE-MARTIANS", "KUBE-MARTIANS", "KUBE-MARTIANS-SET"],
  });
  assert.equal(warnings.filter((line) => line.includes("cannot be reset")).length, 1);
});

Deno.test("with --init-only, loopback addresses are routed only after martians are dropped", async () => {
  const host = createHost();
  const options: BackendOptions = { family: "IPv4", ...host, logger: silentLogger };
  const settings = [{ name: "net.ipv4.ip_forward", value: 1 }, { name: ROUTE_LOCALNET, value: 1 }];
  host.runner.sysctls.set("net.ipv4.ip_forward", "0");
  const refusal = { how: "exits", exitCode: 1, stderr: "no" } as const;
  const endRefusal = host.runner.inject(({ tool }) => tool === "iptables-restore", refusal);
  await writeHostSettings(options, settings);
  endRefusal();
  assert.deepEqual([host.runner.sysctls.get("net.ipv4.ip_forward"), host.runner.sysctls.get(ROUTE_LOCALNET)], [
    "1",
    "0",
  ]);

  host.runner.forgetCalls();
  await writeHostSettings(options, settings);
  assert.deepEqual(writes(host), ["iptables-restore", "iptables-restore", `${ROUTE_LOCALNET}=1`]);
  assert.deepEqual(ask(host), { dropped: 1 });
  host.runner.forgetCalls();
  await writeHostSettings(options, settings);
  assert.deepEqual(writes(host), []);
  const before = host.runner.dump();
  const { snapshot } = await backendUnderTest(host);
  await snapshot([PORT]);
  for (const table of ["mangle", "filter"]) {
    assert.equal(host.runner.rules("IPv4", table, "KUBE-MARTIANS")!.length, 1);
  }
  assert.ok(before.split("\n").every((line) => host.runner.dump().includes(line)));
});
