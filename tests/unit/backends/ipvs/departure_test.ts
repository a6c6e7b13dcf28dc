/** The answers of `sluice check` for another mode, and of a cleanup, on a node that is in ipvs mode. */
import assert from "node:assert/strict";
import type { DepartureSettings } from "../../../../backends/contract/mod.ts";
import { describeMode, findMode, MODES } from "../../../../backends/mod.ts";
import { removeIpvsTraces } from "../../../../backends/ipvs/leftovers.ts";
import { readTimeouts } from "../../../../backends/ipvs/virtual_servers.ts";
import { checkDifferences } from "../../../../backends/preflight/mod.ts";
import type { Runner } from "../../../../backends/tools/mod.ts";
import { IPVS_SCHEDULERS, type IpvsSettings, type ServicePort } from "../../../../core/model/mod.ts";
import type { Finding } from "../../../../core/problems/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, createIpvsHost, type IpvsHost } from "./host.ts";

const DEFAULTS: DepartureSettings = { algorithm: undefined, hash: "flow", nodePortAddresses: ["primary"] };
const IN_IPVS = new Map([[describeMode("ipvs"), ["kube-ipvs0"]]]);

/** The findings for a mode on a host, by name. */
async function findings(
  { runner }: IpvsHost,
  settings: Partial<DepartureSettings> = {},
  to: "nftables" | "iptables" = "nftables",
): Promise<ReadonlyMap<string, Finding>> {
  const options = { mode: findMode(to), modes: MODES, runner, settings: { ...DEFAULTS, ...settings } };
  const found = await checkDifferences({ byMode: IN_IPVS }, options);
  assert.equal(new Set(found.map(({ name }) => name)).size, found.length);
  return new Map(found.map((finding) => [finding.name, finding]));
}

/** A host that a proxy in ipvs mode serves these service ports on. */
async function served(
  ports: readonly Partial<ServicePort>[],
  ipvs: Partial<IpvsSettings> = {},
  nodeAddresses = ["192.168.1.1", "192.168.2.1"],
): Promise<IpvsHost> {
  const host = createIpvsHost({ surroundings: { nodeAddresses } });
  for (const name of IPVS_SCHEDULERS) host.runner.ipvs.schedulers.add(name);
  const { snapshot } = await backendUnderTest(host, "IPv4", ipvs);
  await snapshot(ports.map((changes, i) => fakeServicePort(`default/web:${i}`, { port: 80 + i, ...changes })));
  return host;
}

Deno.test("nothing is said on a node that is in the wanted mode, in another one, or in none", async () => {
  const { runner } = await served([{}]);
  const ask = (mode: "ipvs" | "nftables", byMode: ReadonlyMap<ReturnType<typeof describeMode>, readonly string[]>) =>
    checkDifferences({ byMode }, { mode: findMode(mode), modes: MODES, runner, settings: DEFAULTS });
  assert.deepEqual(await ask("ipvs", IN_IPVS), []);
  assert.deepEqual(await ask("nftables", new Map([[describeMode("ipvs"), []]])), []);
  assert.deepEqual(await ask("nftables", new Map([[describeMode("iptables"), ["KUBE-SVC-A"]]])), []);
});

Deno.test("the scheduler and its replacement are named, unless the configuration has it already", async () => {
  const asked = async (
    scheduler: string,
    settings: Partial<DepartureSettings> = {},
    to: "nftables" | "iptables" = "nftables",
  ) => (await findings(await served([{}, {}], { scheduler }), settings, to)).get("ipvs scheduler")!;
  const { code, verdict, message, fix } = await asked("rr");
  assert.deepEqual([code, verdict], ["mode-differs", "yellow"]);
  assert.equal(message, "rr at 2 virtual servers: nftables mode balances by random");
  assert.match(fix!, /balance\.algorithm: round-robin, or annotate/);
  assert.equal((await asked("rr", { algorithm: "round-robin" })).verdict, "green");
  assert.match((await asked("wlc")).fix!, /balance\.algorithm: least-connections \(.*TCP only\)/);
  assert.match((await asked("sh")).fix!, /balance\.algorithm: consistent-hash and balance\.affinityHash: client,/);
  assert.equal((await asked("sh", { algorithm: "consistent-hash" })).verdict, "yellow");
  assert.equal((await asked("sh", { algorithm: "consistent-hash", hash: "client" })).verdict, "green");
  assert.match((await asked("mh")).fix!, /balance\.algorithm: consistent-hash, or/);
  for (const scheduler of ["dh", "fo", "ovf", "lblc"]) {
    assert.match((await asked(scheduler)).message, /no algorithm does the same; nftables mode balances by random$/);
  }
  assert.match((await asked("rr", {}, "iptables")).message, /iptables mode balances by random and has no replacement$/);
});

Deno.test("docs/ipvs.md has a row for every scheduler", async () => {
  const page = await Deno.readTextFile(new URL("../../../../docs/ipvs.md", import.meta.url));
  assert.deepEqual(IPVS_SCHEDULERS.filter((name) => !page.includes(`\n| \`${name}\``)), []);
});

Deno.test("node ports are reported if the mode would leave out addresses", async () => {
  const host = await served([{ nodePort: 30080 }]);
  assert.match(
    (await findings(host)).get("ipvs node ports")!.message,
    /^served at 192\.168\.1\.1, 192\.168\.2\.1; nftables mode serves them at this node's primary IPv4 address/,
  );
  for (const nodePortAddresses of [[], ["all", "primary"], ["192.168.0.0/16"]]) {
    assert.equal((await findings(host, { nodePortAddresses })).get("ipvs node ports"), undefined);
  }
  assert.equal((await findings(await served([{}]))).get("ipvs node ports"), undefined);
  const single = await served([{ nodePort: 30080 }], {}, ["192.168.1.1"]);
  assert.equal((await findings(single)).get("ipvs node ports"), undefined);
});

Deno.test("addresses, affinity and policies are reported where there are any", async () => {
  const plain = await findings(await served([{}]));
  assert.deepEqual([...plain.keys()], ["ipvs scheduler", "ipvs addresses"]);
  assert.match(plain.get("ipvs addresses")!.message, /^1 address of services on kube-ipvs0 /);
  const host = await served([{ affinitySeconds: 60 }, { nodePort: 30080, external: "local" }]);
  const all = await findings(host);
  assert.match(all.get("ipvs affinity")!.message, /^1 virtual server with session affinity/);
  assert.equal(all.get("ipvs policy Local")!.verdict, "green");
});

Deno.test("of several schedulers, the one of most virtual servers comes first", async () => {
  const { runner } = await served([{ balance: { algorithm: "sed" } }, {}, {}]);
  const options = { mode: findMode("nftables"), modes: MODES, runner, settings: DEFAULTS };
  const found = (await checkDifferences({ byMode: IN_IPVS }, options)).filter(({ name }) => name === "ipvs scheduler");
  assert.deepEqual(found.map(({ message }) => message.split(":")[0]), [
    "rr at 2 virtual servers",
    "sed at 1 virtual server",
  ]);
});

Deno.test("settings that outlive the mode, and virtual servers of other programs, are reported", async () => {
  const host = await served([{}], { strictARP: true, timeoutSeconds: { tcp: 0, tcpFin: 0, udp: 60 } });
  const definition = { scheduler: "wlc", persistentSeconds: 0, flags: "", reals: new Map(), clients: new Map() };
  host.runner.ipvs.servers.set("-t 192.0.2.9:443", definition);
  const found = await findings(host);
  assert.match(found.get("ipvs timeouts")!.message, /900 s \(TCP\), 120 s \(TCP after FIN\) and 60 s \(UDP\)/);
  assert.equal(found.get("ipvs strict ARP")!.verdict, "green");
  assert.equal(found.get("ipvs others")!.message, "1 virtual server of other programs will stay");
});

Deno.test("strict ARP is reported if both of its settings are there", async () => {
  for (const [ignore, announce] of [["1", "0"], ["0", "2"], ["1", "2"]]) {
    const host = await served([{}]);
    host.runner.sysctls.set("net.ipv4.conf.all.arp_ignore", ignore!).set("net.ipv4.conf.all.arp_announce", announce!);
    assert.equal((await findings(host)).has("ipvs strict ARP"), ignore === "1" && announce === "2");
  }
});

Deno.test("a missing tool is named with its consequence, and a failure with its message", async () => {
  const missing = await served([{}]);
  missing.runner.inject(({ tool }) => tool === "ipset", { how: "is missing" });
  const { message, fix } = (await findings(missing)).get("ipvs state")!;
  assert.match(message, /ipset.*does not remove the state of ipvs mode either/);
  assert.match(fix!, /install ipvsadm and ipset/);
  const failing = await served([{}]);
  failing.runner.inject(({ tool }) => tool === "ipvsadm", { how: "exits", exitCode: 1, stderr: "must be root" });
  assert.match((await findings(failing)).get("ipvs state")!.message, /^cannot be read: .*must be root/);
  const strange: Runner = { run: () => Promise.resolve({ exitCode: 0, stdout: "Timeout: ?\n", stderr: "" }) };
  await assert.rejects(readTimeouts(strange), /ipvsadm printed no timeouts: "Timeout: \?/);
});

Deno.test("each timeout that differs from the kernel's own is reported, and none that does not", async () => {
  const own = { tcp: 900, tcpFin: 120, udp: 300 };
  const isReported = async (timeoutSeconds: typeof own) => {
    const host = await served([{}], { strictARP: true, timeoutSeconds });
    return (await findings(host)).has("ipvs timeouts");
  };
  assert.equal(await isReported(own), false);
  for (const name of ["tcp", "tcpFin", "udp"] as const) {
    assert.equal(await isReported({ ...own, [name]: 60 }), true, name);
  }
});

Deno.test("a cleanup without a tool of ipvs mode says what stays, and how to remove it", async () => {
  for (const tool of ["ipvsadm", "ipset"]) {
    const { runner } = await served([{}]);
    runner.inject((call) => call.tool === tool, { how: "is missing" });
    const options = { family: "IPv4", runner, clock: createFakeClock(), logger: silentLogger } as const;
    await assert.rejects(removeIpvsTraces(options), (error: Error) => {
      assert.match(error.message, /virtual servers, sets and addresses of ipvs mode stay/);
      assert.match(error.message, new RegExp(`: ${tool} is not installed.*\\(install it and repeat sluice --cleanup`));
      return true;
    });
  }
});
