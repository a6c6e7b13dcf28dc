/** Dry runs of every mode: they show how a kernel differs from a state, and change nothing. */
import assert from "node:assert/strict";
import { compareWithKernel, type Difference, dryRun, type DryRunCall } from "../../../../backends/dry_run/mod.ts";
import type { Runner, ToolCall } from "../../../../backends/tools/runner.ts";
import type { FamilyDelta, ProxyMode, ServicePort } from "../../../../core/model/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { commonSettings } from "../every_backend.ts";
import { backendUnderTest as ipvsUnderTest, createIpvsHost } from "../ipvs/host.ts";
import { backendUnderTest as iptablesUnderTest, createHost, tamper } from "../iptables/host.ts";
import { backendUnderTest as nftablesUnderTest } from "../nftables/host.ts";

const PORTS = [
  fakeServicePort("default/web:http", { nodePort: 30080, endpointsOnThisNode: ["10.1.0.1:8080"] }),
  fakeServicePort("default/dns:dns", { protocol: "udp", clusterIP: "10.96.0.11", port: 53, affinitySeconds: 60 }),
];

function stateOf(mode: ProxyMode, set: readonly ServicePort[] = PORTS): FamilyDelta {
  return { revision: 1, base: undefined, settings: commonSettings(mode), set, deleted: [] };
}

function compare(mode: ProxyMode, runner: Runner, ports?: readonly ServicePort[]) {
  return compareWithKernel({ family: "IPv4", state: stateOf(mode, ports), clock: createFakeClock() }, runner);
}

const brief = (differences: readonly Difference[]) =>
  differences.map(({ place, what, lines }) => [place, what, ...lines.map(({ sign, text }) => `${sign} ${text}`)]);

Deno.test("iptables: an unchanged kernel shows no difference; a changed chain is shown by its lines", async () => {
  const host = createHost();
  const { snapshot } = await iptablesUnderTest(host);
  await snapshot(PORTS, commonSettings("iptables"));
  assert.deepEqual(await compare("iptables", host.runner), []);

  await tamper(
    host,
    "*nat",
    "-A KUBE-MARK-MASQ -j RETURN",
    ":KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]",
    "-A KUBE-SVC-ABCDEFGHIJKLMNOP -j RETURN",
    '-D OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    "COMMIT",
  );
  const before = host.runner.dump("IPv4");
  assert.deepEqual(brief(await compare("iptables", host.runner)), [
    ["nat OUTPUT", "differs", '+ -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'],
    ["nat PREROUTING", "differs", '- -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'],
    ["nat KUBE-MARK-MASQ", "differs", "- -j RETURN"],
    ["nat KUBE-SVC-ABCDEFGHIJKLMNOP", "unwanted", "- -j RETURN"],
  ]);
  assert.equal(host.runner.dump("IPv4"), before, "nothing was changed");
});

Deno.test("iptables: the probabilities of thousands of endpoints are neither a difference nor drift", async () => {
  const host = createHost();
  const clusterEndpoints = Array.from({ length: 4200 }, (_, i) => `10.244.${i >> 8}.${i & 255}:80`);
  const ports = [fakeServicePort("default/web:http", { clusterEndpoints })];
  const { snapshot, backend } = await iptablesUnderTest(host);
  await snapshot(ports, commonSettings("iptables"));
  assert.deepEqual(await compare("iptables", host.runner, ports), []);
  assert.equal((await backend.resync()).counts["drift_repaired"], 0);
});

Deno.test("nftables: an unchanged kernel shows no difference; changed elements, chains and sets are shown", async () => {
  const host = createFakeNftHost();
  const { snapshot, table } = nftablesUnderTest(host);
  await snapshot(PORTS, commonSettings("nftables"));
  assert.deepEqual(await compare("nftables", host.runner), []);

  table().sets.get("services")!.elements.delete("10.96.0.10 . tcp . 80");
  table().sets.get("cluster-ips")!.elements.set("10.77.0.1", "");
  const services = table().chains.get("services")!;
  services.rules = [...services.rules, "drop"];
  table().chains.get("nat-prerouting")!.rules = [];
  table().chains.set("stray", { hook: undefined, rules: ["drop"] });
  table().sets.set("old", {
    kind: "map",
    lines: ["typeof ip daddr : verdict"],
    elements: new Map(),
    clients: new Map(),
    counters: new Map(),
  });
  const before = JSON.stringify([...table().sets].map(([name, { elements }]) => [name, [...elements]]));
  assert.deepEqual(brief(await compare("nftables", host.runner)), [
    ["chain nat-prerouting", "differs", "+ jump services"],
    ["chain services", "differs", "- drop"],
    ["chain stray", "unwanted", "- drop"],
    ["map old", "unwanted"],
    ["map services", "differs", "+ 10.96.0.10 . tcp . 80 : goto pick-tcp-1"],
    ["set cluster-ips", "differs", "- 10.77.0.1"],
  ]);
  assert.equal(JSON.stringify([...table().sets].map(([name, { elements }]) => [name, [...elements]])), before);
});

Deno.test("ipvs: an unchanged kernel shows no difference; changed virtual servers, sets, addresses and chains are shown", async () => {
  const host = createIpvsHost();
  const { snapshot } = await ipvsUnderTest(host);
  await snapshot(PORTS, commonSettings("ipvs"));
  assert.deepEqual(await compare("ipvs", host.runner), []);

  const { servers, sets, interfaces } = host.runner.ipvs;
  servers.get("-t 10.96.0.10:80")!.reals.delete("10.1.0.1:8080");
  servers.delete("-u 10.96.0.11:53");
  sets.get("KUBE-CLUSTER-IP")!.entries.delete("10.96.0.10,tcp:80");
  sets.get("KUBE-IPVS-IPS")!.entries.add("10.77.0.1");
  interfaces.get("kube-ipvs0")!.delete("10.96.0.10/32");
  await tamper(host, "*nat", "-A KUBE-MARK-MASQ -j RETURN", "COMMIT");
  const before = host.runner.dump("IPv4");
  assert.deepEqual(brief(await compare("ipvs", host.runner)), [
    ["nat KUBE-MARK-MASQ", "differs", "- -j RETURN"],
    ["interface kube-ipvs0", "differs", "+ 10.96.0.10/32"],
    ["ipset KUBE-CLUSTER-IP", "differs", "+ 10.96.0.10,tcp:80"],
    ["ipset KUBE-IPVS-IPS", "differs", "- 10.77.0.1"],
    ["virtual server -t 10.96.0.10:80", "differs", "+ -r 10.1.0.1:8080 -m -w 1"],
    ["virtual server -u 10.96.0.11:53", "differs", "+ -s rr -p 60", "+ -r 10.1.0.1:8080 -m -w 1"],
  ]);
  assert.equal(host.runner.dump("IPv4"), before, "nothing was changed");
});

/** An empty kernel of each mode, and a place that every state has there. */
const KERNELS: Readonly<Record<ProxyMode, { readonly create: () => Runner; readonly entry: string }>> = {
  iptables: { create: () => createHost().runner, entry: "nat KUBE-SERVICES" },
  nftables: { create: () => createFakeNftHost().runner, entry: "chain services" },
  ipvs: { create: () => createIpvsHost().runner, entry: "virtual server -t 10.96.0.10:80" },
};

for (const mode of ["iptables", "nftables", "ipvs"] as const) {
  const { create, entry } = KERNELS[mode]!;

  Deno.test(`${mode}: an empty kernel lacks everything`, async () => {
    const everything = await compare(mode, create());
    assert.equal(everything.find(({ place }) => place === entry)?.what, mode === "ipvs" ? "differs" : "missing");
    assert.ok(everything.every(({ lines }) => lines.every(({ sign }) => sign === "+")));
  });

  Deno.test(`${mode}: the rendered input brings an empty kernel to the state`, async () => {
    const target = create();
    const calls: ToolCall[] = [];
    await dryRun({ family: "IPv4", state: stateOf(mode), clock: createFakeClock() }, {
      read: undefined,
      onChange: ({ tool, args, stdin }) => void calls.push({ tool, args, stdin }),
    });
    assert.ok(calls.length > 0);
    for (const call of calls) assert.equal((await target.run(call)).exitCode, 0);
    assert.deepEqual(brief(await compare(mode, target)), []);
  });

  Deno.test(`${mode}: the rendered input has every rule that describes a service port`, async () => {
    let input = "";
    const backend = await dryRun({ family: "IPv4", state: stateOf(mode), clock: createFakeClock() }, {
      read: undefined,
      onChange: ({ stdin }) => void (input += [...stdin ?? []].join("")),
    });
    for (const key of ["default/web:http|tcp", "default/dns:dns|udp"]) {
      const { parts, problem } = backend.describe!(key)!;
      assert.equal(problem, undefined);
      assert.ok(parts.length > 1);
      for (const { place, lines } of parts) {
        const name = place.split(" ").at(-1)!;
        assert.ok(input.includes(name), place);
        for (const line of lines) assert.ok(input.includes(line), `${place}: ${line}`);
      }
    }
    assert.equal(backend.describe!("default/none:http|tcp"), undefined);
  });
}

Deno.test("a change can be shown and printed more than once", async () => {
  const calls: DryRunCall[] = [];
  await dryRun({ family: "IPv4", state: stateOf("ipvs"), clock: createFakeClock() }, {
    read: undefined,
    onChange: (call) => void calls.push(call),
  });
  for (const { stdin, changes } of calls) {
    assert.deepEqual([...changes()], [...changes()]);
    if (stdin) assert.deepEqual([...stdin], [...stdin]);
  }
});

for (const mode of ["iptables", "nftables", "ipvs"] as const) {
  Deno.test(`${mode}: a dry run passes calls that read, of the kernel's settings too, and none that changes anything`, async () => {
    const { run } = KERNELS[mode]!.create();
    const calls: string[] = [];
    await compare(mode, {
      run(call) {
        calls.push([call.tool, ...call.args].join(" "));
        return run(call);
      },
    });
    // Only iptables mode depends on a setting.
    assert.equal(calls.some((call) => call.startsWith("sysctl ")), mode === "iptables");
    assert.deepEqual(
      calls.filter((call) => /^sysctl .*=| -w|restore$|\b(add|delete|flush|create|-f)\b/.test(call)),
      [],
    );
  });
}
