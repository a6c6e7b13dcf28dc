/** The iptables backend on a real kernel. */
import assert from "node:assert/strict";
import type { BackendOptions } from "../../backends/contract/backend.ts";
import { loadBackend } from "../../backends/mod.ts";
import { createIptablesBackend } from "../../backends/iptables/backend.ts";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import { compareWithKernel } from "../../backends/dry_run/mod.ts";
import type { FamilyDelta, ServicePort } from "../../core/model/mod.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { searchPath } from "../../platform/host.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { podSettings } from "../unit/backends/iptables/host.ts";

const clock = systemClock;
const runner = createProcessRunner({ clock, path: searchPath() });
const options: BackendOptions = { family: "IPv4", runner, clock, logger: silentLogger };

function snapshot(set: readonly ServicePort[]): FamilyDelta {
  requireIsolation();
  return { revision: 1, base: undefined, settings: podSettings(), set, deleted: [] };
}

async function forwardRules(): Promise<string> {
  const { stdout } = await runner.run({ tool: "iptables", args: ["-w", "-S", "KUBE-FORWARD"] });
  return stdout;
}

Deno.test("thousands of endpoints of one service read back as written", async () => {
  const clusterEndpoints = Array.from({ length: 5000 }, (_, i) => `10.244.${i >> 8}.${i & 255}:80`);
  const state = snapshot([fakeServicePort("default/web:http", { clusterEndpoints })]);
  const backend = createIptablesBackend(options);
  await backend.setup();
  assert.deepEqual((await backend.sync(state)).problems, []);
  assert.deepEqual(await compareWithKernel({ family: "IPv4", state, clock }, runner), []);
  assert.equal((await backend.resync()).counts["drift_repaired"], 0);
  await backend.cleanup();
});

for (const family of ["IPv4", "IPv6"] as const) {
  Deno.test(`${family}: node ports that their services limit to some addresses read back as written`, async () => {
    const isFour = family === "IPv4";
    const common = {
      clusterIP: isFour ? "10.96.0.10" : "fd00:96::10",
      clusterEndpoints: [isFour ? "10.1.0.1:80" : "[fd00:1::1]:80"],
      nodePortPrefixes: isFour ? ["10.0.0.0/9", "192.168.1.1/32"] : ["fd00:2::/61", "2001:db8::1/128"],
    };
    const ports = Array.from({ length: 40 }, (_, i) =>
      fakeServicePort(`default/s${i}`, {
        ...{ ...common, port: 1000 + i, nodePort: 30_000 + i },
        ...i % 3 === 0 ? { clusterEndpoints: [], internal: "reject", external: "reject" } : {},
      }));
    const localTraffic = { by: "none" } as const;
    const state = { ...snapshot(ports), settings: podSettings({ localTraffic }) };
    const backend = createIptablesBackend({ ...options, family });
    await backend.setup();
    assert.deepEqual((await backend.sync(state)).problems, []);
    assert.deepEqual(await compareWithKernel({ family, state, clock }, runner), []);
    const unlimited = ports.map(({ nodePortPrefixes: _, ...port }) => port);
    assert.deepEqual(
      (await backend.sync({ ...state, revision: 2, base: 1, settings: undefined, set: unlimited })).problems,
      [],
    );
    assert.equal((await backend.resync()).counts["drift_repaired"], 0);
    await backend.cleanup();
  });
}

Deno.test("INVALID packets are dropped unless nf_conntrack_tcp_be_liberal is set", async () => {
  for (const [liberal, drops] of [[0, true], [1, false]] as const) {
    const backend = createIptablesBackend(options);
    await runner.run({ tool: "sysctl", args: ["-w", `net.netfilter.nf_conntrack_tcp_be_liberal=${liberal}`] });
    await backend.setup();
    await backend.sync(snapshot([]));
    assert.equal((await forwardRules()).includes("--ctstate INVALID -j DROP"), drops);
    assert.equal((await backend.resync()).counts["drift_repaired"], 0);
    await backend.cleanup();
  }
});

Deno.test("cleanup removes the rules of the iptables variant that is not the default one", async () => {
  requireIsolation();
  const foreign = "KUBE-FIREWALL";
  const input = `*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-ABC - [0:0]\n:${foreign} - [0:0]\n` +
    "-A OUTPUT -j KUBE-SERVICES\n-A KUBE-SERVICES -d 10.0.0.1/32 -j KUBE-SVC-ABC\nCOMMIT\n";
  const version = await runner.run({ tool: "iptables", args: ["--version"] });
  const other = version.stdout.includes("nf_tables") ? "legacy" : "nft";
  await runner.run({ tool: `iptables-${other}-restore`, args: ["--noflush"], stdin: input });
  const saved = async () => (await runner.run({ tool: `iptables-${other}-save`, args: ["-t", "nat"] })).stdout;
  assert.match(await saved(), /KUBE-SVC-ABC/);
  const backend = await loadBackend("iptables", options);
  await backend.setup();
  await backend.cleanup();
  assert.doesNotMatch(await saved(), /KUBE-SERVICES|KUBE-SVC-ABC/);
  assert.match(await saved(), new RegExp(foreign), "chains of other programs stay");
});
