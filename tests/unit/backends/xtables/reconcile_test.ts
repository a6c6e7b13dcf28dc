/** Reconciliation of chains: restarts, changes, leftovers of other programs, drift, refusals, failures. */
import assert from "node:assert/strict";
import { silentLogger } from "../../../../platform/log.ts";
import { loadBackend } from "../../../../backends/registry.ts";
import { settled } from "../../../fakes/clock.ts";
import { serviceChainNames } from "../../../../backends/xtables/chains.ts";
import { type ServicePort, servicePortKey } from "../../../../core/model/mod.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, createHost, type Host, podSettings, tamper } from "../iptables/host.ts";

function service(index: number, changes: Partial<ServicePort> = {}): ServicePort {
  return fakeServicePort(`default/s${index}:p`, {
    clusterIP: `10.96.0.${index}`,
    clusterEndpoints: [`10.244.1.${index}:80`],
    ...changes,
  });
}

const services = (count: number) => Array.from({ length: count }, (_, index) => service(index + 1));
const chainOf = (port: ServicePort) => serviceChainNames(port).cluster;
const LOCK_HELD = "Another app is currently holding the xtables lock; still 5s 0us time ahead to have a chance";

/** The dump of a fresh kernel with these service ports. */
async function freshDump(ports: readonly ServicePort[], host: Host = createHost()): Promise<string> {
  const { snapshot } = await backendUnderTest(host);
  await snapshot(ports);
  return host.runner.dump();
}

const isRestore = ({ tool }: { readonly tool: string }) => tool === "iptables-restore";

function reach({ runner }: Host, to: string): string[] {
  return [...runner.destinations({ from: "pod-on-node", to, port: 80 }).keys()];
}

/** Makes the kernel refuse every rule that contains a text. */
function refuse({ runner }: Host, text: string, message: (line: number) => string): void {
  const refused = ({ stdin }: { readonly stdin: string }) =>
    stdin.split("\n").findIndex((line) => line.includes(text)) + 1;
  for (let line = 1; line < 200; line++) {
    const failure = { how: "exits", exitCode: 4, stderr: message(line) } as const;
    runner.inject((call) => isRestore(call) && refused(call) === line, failure);
  }
}

Deno.test("a restart writes nothing if the rules are right", async () => {
  const host = createHost();
  const dump = await freshDump(services(50), host);
  const { snapshot, backend, takeInputs } = await backendUnderTest(host);
  const { counts } = await snapshot(services(50));
  await backend.resync();
  assert.deepEqual(takeInputs(), []);
  assert.equal(counts["chains_written"], 0);
  assert.equal(host.runner.dump(), dump);
});

Deno.test("a change of endpoints writes only the chain of its service", async () => {
  const { snapshot, change, takeInputs } = await backendUnderTest();
  await snapshot(services(50));
  takeInputs();
  const changed = service(7, { clusterEndpoints: ["10.244.2.7:80"] });
  await change([changed]);
  const [input, ...others] = takeInputs();
  assert.deepEqual(others, []);
  assert.deepEqual(input!.split("\n"), [
    "*nat",
    `:${chainOf(changed)} - [0:0]`,
    `-A ${chainOf(changed)} ! -s 10.244.1.0/24 -j KUBE-MARK-MASQ`,
    `-A ${chainOf(changed)} -p tcp -j DNAT --to-destination 10.244.2.7:80`,
    "COMMIT",
    "",
  ]);
});

Deno.test("the first sync deletes or takes over kube-proxy's chains and keeps those of other programs", async () => {
  const host = createHost();
  const known = service(1), foreign = ["-A INPUT -s 198.51.100.0/24 -j DOCKER", "-A DOCKER -j DROP"];
  await tamper(
    host,
    "*filter",
    ":DOCKER - [0:0]",
    ":KUBE-FIREWALL - [0:0]",
    ...foreign,
    "-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP",
    "COMMIT",
    "*nat",
    ":KUBE-SERVICES - [0:0]",
    `:${chainOf(known)} - [0:0]`,
    ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]",
    ":KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]",
    "-A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m tcp -j DNAT --to-destination 10.244.1.99:80",
    `-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB`,
    `-A ${chainOf(known)} -j KUBE-SEP-BBBBBBBBBBBBBBBB`,
    "-A KUBE-SERVICES -d 10.96.0.99/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA",
    '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    "COMMIT",
  );
  const { snapshot, takeInputs } = await backendUnderTest(host);
  await snapshot([known]);
  const chains = host.runner.chains("IPv4", "nat");
  assert.deepEqual(chains.filter((chain) => /KUBE-(SVC-(?!LOCALHOST)|SEP)/.test(chain)), [chainOf(known)]);
  assert.deepEqual(reach(host, "10.96.0.1"), ["10.244.1.1:80"]);
  assert.deepEqual(reach(host, "10.96.0.99"), ["passed"]);
  assert.equal(host.runner.rules("IPv4", "nat", "PREROUTING")!.length, 1);
  assert.deepEqual(host.runner.rules("IPv4", "filter", "DOCKER"), ["-j DROP"]);
  assert.equal(host.runner.rules("IPv4", "filter", "KUBE-FIREWALL")!.length, 1);
  assert.ok(host.runner.rules("IPv4", "filter", "INPUT")!.includes("-s 198.51.100.0/24 -j DOCKER"));
  assert.ok(!takeInputs().join("").includes("DOCKER"));
});

const DRIFTS: Readonly<Record<string, (chain: string) => readonly string[]>> = {
  "a flushed chain": (chain) => [`-F ${chain}`],
  "an edited chain": (chain) => [`-I ${chain} -j RETURN`],
  "a removed jump": () => ['-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'],
  "a deleted chain": (chain) => ["-F KUBE-SERVICES", `-F ${chain}`, `-X ${chain}`],
};

for (const [what, lines] of Object.entries(DRIFTS)) {
  Deno.test(`${what} is repaired and counted as drift by the next comparison`, async () => {
    const host = createHost();
    const { snapshot, backend } = await backendUnderTest(host);
    await snapshot(services(3));
    const right = host.runner.dump();
    await tamper(host, "*nat", ...lines(chainOf(service(2))), "COMMIT");
    assert.notEqual(host.runner.dump(), right);
    const { counts } = await backend.resync();
    assert.equal(host.runner.dump(), right);
    assert.equal(counts["drift_repaired"], what === "a deleted chain" ? 2 : 1);
    assert.equal((await backend.resync()).counts["drift_repaired"], 0);
  });
}

const ERRORS: Readonly<Record<string, (line: number) => string>> = {
  "with a line number": (line) =>
    `iptables-restore v1.8.9 (nf_tables): \nline ${line}: RULE_APPEND failed (Invalid argument): rule in chain X`,
  "without a line number": () => "iptables-restore: unable to do it",
};

for (const [how, message] of Object.entries(ERRORS)) {
  Deno.test(`a service that the tool refuses ${how} is left out, reported, and written again after a change`, async () => {
    const host = createHost();
    const { snapshot, change } = await backendUnderTest(host);
    refuse(host, "10.244.1.5:80", message);
    const { problems } = await snapshot(services(9));
    assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/s5:p"]);
    assert.match(problems[0]!.message, /iptables-restore/);
    const without = services(9).filter(({ name }) => name !== "default/s5:p");
    for (const { clusterIP, clusterEndpoints } of without) assert.deepEqual(reach(host, clusterIP), clusterEndpoints);
    assert.equal(host.runner.dump(), await freshDump(without));
    const fixed = service(5, { clusterEndpoints: ["10.244.1.55:80"] });
    assert.deepEqual((await change([fixed])).problems, []);
    assert.equal(host.runner.dump(), await freshDump([...without, fixed]));
  });
}

Deno.test("the next comparison tries a refused service again", async () => {
  const host = createHost();
  const { snapshot, backend } = await backendUnderTest(host);
  const stderr = ERRORS["without a line number"]!(0);
  const end = host.runner.inject((call) => call.stdin.includes("10.244.1.2:80"), { how: "exits", exitCode: 1, stderr });
  assert.equal((await snapshot(services(3))).problems.length, 1);
  assert.equal((await backend.resync()).problems.length, 1);
  end();
  assert.deepEqual((await backend.resync()).problems, []);
  assert.equal(host.runner.dump(), await freshDump(services(3)));
});

Deno.test("a restore that fails because of the host throws, and the next sync completes it", async () => {
  const host = createHost();
  const { snapshot, change } = await backendUnderTest(host);
  const lock = { how: "exits", exitCode: 4, stderr: LOCK_HELD } as const;
  host.runner.inject(isRestore, lock, 1);
  await assert.rejects(snapshot(services(3)), /xtables lock/);
  assert.deepEqual((await change([])).problems, []);
  assert.equal(host.runner.dump(), await freshDump(services(3)));
  host.runner.inject(isRestore, lock, 1);
  await assert.rejects(change([service(4)], [servicePortKey("default/s1:p", "tcp")]), /xtables lock/);
  await change([]);
  assert.equal(host.runner.dump(), await freshDump([service(2), service(3), service(4)]));
});

Deno.test("a restore that fails after doing all or half of its work does not duplicate jumps", async () => {
  const done = createHost();
  const first = await backendUnderTest(done);
  done.runner.inject(isRestore, { how: "exits", exitCode: 4, stderr: LOCK_HELD, afterItsWork: true }, 1);
  await assert.rejects(first.snapshot(services(3)));
  await first.change([]);
  assert.equal(done.runner.dump(), await freshDump(services(3)));

  // The filter table is committed before the nat table is refused.
  const half = createHost();
  const second = await backendUnderTest(half);
  const refused = service(2, { clusterEndpoints: ["10.244.1.2:99999"] });
  assert.equal((await second.snapshot([service(1), refused])).problems.length, 1);
  assert.equal(half.runner.dump(), await freshDump([service(1)]));
});

Deno.test("stale UDP flows are deleted with their endpoint, others stay", async () => {
  const host = createHost();
  const { snapshot, change } = await backendUnderTest(host);
  const dns = (...clusterEndpoints: string[]) => service(1, { protocol: "udp", port: 53, clusterEndpoints });
  await snapshot([dns("10.244.1.1:53", "10.244.1.2:53")]);
  const flow = (sourcePort: number, address: string) => ({
    source: "10.244.1.9",
    sourcePort,
    destination: "10.96.0.1",
    destinationPort: 53,
    answeredBy: { address, port: 53 },
  });
  host.runner.conntrack.push(flow(1, "10.244.1.1"), flow(2, "10.244.1.2"));
  host.clock.advance(1_000);
  await change([dns("10.244.1.2:53")]);
  assert.equal((await change([])).counts["conntrack_deleted"], 1);
  assert.deepEqual(host.runner.conntrack.map(({ sourcePort }) => sourcePort), [2]);
});

Deno.test("cleanup removes only what Sluice and kube-proxy wrote", async () => {
  const host = createHost();
  await tamper(
    host,
    "*filter",
    ":DOCKER - [0:0]",
    ":KUBE-FIREWALL - [0:0]",
    "-A INPUT -s 198.51.100.0/24 -j DOCKER",
    "-A DOCKER -j DROP",
    "COMMIT",
    "*mangle",
    ":KUBE-KUBELET-CANARY - [0:0]",
    ":KUBE-PROXY-CANARY - [0:0]",
    "COMMIT",
    "*nat",
    ":KUBE-KUBELET-CANARY - [0:0]",
    "COMMIT",
  );
  const before = host.runner.dump().split("\n").filter((line) => !line.includes("KUBE-PROXY-CANARY")).join("\n");
  const { snapshot } = await backendUnderTest(host);
  await snapshot(services(60).map((port, i) => ({ ...port, nodePort: 30000 + i })), podSettings());
  await settled();
  await tamper(
    host,
    "*nat",
    ":KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]",
    "-A KUBE-SEP-BBBBBBBBBBBBBBBB -j KUBE-MARK-MASQ",
    "COMMIT",
  );
  await (await loadBackend("iptables", { family: "IPv4", ...host, logger: silentLogger })).cleanup();
  assert.equal(host.runner.dump(), before);
});

Deno.test("the mode itself removes its rules: no other mode may be there to do so", async () => {
  const host = createHost();
  const { snapshot, backend } = await backendUnderTest(host);
  await snapshot(services(3), podSettings({ localhostNodePorts: false }));
  await backend.cleanup();
  const left = ["filter", "nat"].flatMap((table) => host.runner.chains("IPv4", table as "nat"));
  assert.deepEqual(left.filter((chain) => chain.startsWith("KUBE-")), ["KUBE-MARTIANS"], "which a later step removes");
});

Deno.test("chains that were emptied, but not deleted, are deleted by the next sync", async () => {
  const host = createHost();
  // More chains than are deleted together with the last writes.
  const surplus = Array.from({ length: 1_001 }, (_, i) => `KUBE-SVC-${i}`);
  await tamper(host, "*nat", ...surplus.flatMap((chain) => [`:${chain} - [0:0]`, `-A ${chain} -j ACCEPT`]), "COMMIT");
  const left = () => surplus.map((chain) => host.runner.rules("IPv4", "nat", chain));
  const { snapshot, change } = await backendUnderTest(host);
  host.runner.inject(
    ({ stdin }) =>
      stdin.includes(`-X ${surplus[0]}
`),
    { how: "exits", exitCode: 4, stderr: LOCK_HELD },
    1,
  );
  await assert.rejects(snapshot([]), /xtables lock/);
  assert.ok(left().some((rules) => rules?.length === 0));
  await change([]);
  assert.deepEqual(left().filter((rules) => rules !== undefined), []);
});

Deno.test("a restore that fails without a reason costs no service its rules, and the next sync completes it", async () => {
  const host = createHost();
  const { snapshot, change } = await backendUnderTest(host);
  await snapshot(services(3));
  host.runner.inject(isRestore, { how: "exits", exitCode: 1, stderr: "" }, 3);
  await assert.rejects(change([service(2, { clusterEndpoints: ["10.244.2.2:80"] })]), /no message/);
  for (let tries = 0; tries < 2; tries++) await assert.rejects(change([]), /no message/);
  assert.deepEqual(reach(host, "10.96.0.2"), ["10.244.1.2:80"]);
  assert.deepEqual((await change([])).problems, []);
  assert.deepEqual(reach(host, "10.96.0.2"), ["10.244.2.2:80"]);
});

/** Makes one run of iptables-restore report success without having done anything. */
function skipRestore({ runner }: Host): void {
  runner.inject(isRestore, { how: "prints", stdout: "" }, 1);
}

Deno.test("no service is blamed for a chain that an earlier run was to write", async () => {
  for (const flavour of ["nf_tables", "legacy"] as const) {
    const host = createHost({ flavour });
    const { snapshot, change } = await backendUnderTest(host);
    await snapshot(services(20));
    skipRestore(host);
    await change([service(21)]);
    host.runner.forgetCalls();
    assert.deepEqual((await change([service(22)])).problems, []);
    assert.deepEqual(host.runner.calls.map(({ tool }) => tool), [
      ...["iptables-restore", "iptables-save", "iptables-restore"],
    ]);
    assert.equal(host.runner.dump(), await freshDump(services(22), createHost({ flavour })));
  }
});

Deno.test("a chain that is missing in a kernel that has just been read is no service's fault", async () => {
  const host = createHost();
  const { snapshot, change, backend } = await backendUnderTest(host);
  await snapshot(services(20));
  const stderr = "iptables-restore v1.8.9 (nf_tables): Chain 'KUBE-SVC-ABCDEFGHIJKLMNOP' does not exist\n" +
    "Error occurred at line: 35\n";
  const end = host.runner.inject(isRestore, { how: "exits", exitCode: 2, stderr });
  await assert.rejects(change([service(21)]), /does not exist/);
  end();
  assert.deepEqual((await backend.resync()).problems, []);
  assert.equal(host.runner.dump(), await freshDump(services(21)));
});

Deno.test("a chain with rules of several services is no service's fault", async () => {
  const host = createHost();
  const { snapshot, backend } = await backendUnderTest(host);
  await snapshot(services(20));
  await tamper(host, "*nat", "-A KUBE-SERVICES -j RETURN", "COMMIT");
  const refused = { how: "exits", exitCode: 1, stderr: "iptables-restore: line 22 failed" } as const;
  const end = host.runner.inject(({ stdin }) => stdin.includes(":KUBE-SERVICES "), refused);
  await assert.rejects(backend.resync(), /line 22 failed/);
  end();
  assert.deepEqual((await backend.resync()).problems, []);
  assert.equal(host.runner.dump(), await freshDump(services(20)));
});

Deno.test("a killed restore costs no service its rules and is repeated as a whole", async () => {
  const host = createHost();
  const { snapshot, change, backend } = await backendUnderTest(host);
  await snapshot(services(3));
  host.runner.inject(isRestore, { how: "exits", exitCode: 137, stderr: "" }, 3);
  await assert.rejects(change([service(2, { clusterEndpoints: ["10.244.2.2:80"] })]), /SIGKILL/);
  assert.deepEqual(reach(host, "10.96.0.2"), ["10.244.1.2:80"]);
  await assert.rejects(change([]), /SIGKILL/);
  await assert.rejects(backend.resync(), /SIGKILL/);
  assert.deepEqual((await backend.resync()).problems, []);
  assert.deepEqual(reach(host, "10.96.0.2"), ["10.244.2.2:80"]);
});

Deno.test("a restore that is killed after its work is not taken for undone", async () => {
  const host = createHost();
  const { snapshot, change } = await backendUnderTest(host);
  await snapshot(services(3));
  const dump = host.runner.dump();
  host.runner.inject(isRestore, { how: "exits", exitCode: 137, stderr: "", afterItsWork: true }, 1);
  await assert.rejects(change([service(2, { clusterEndpoints: ["10.244.2.2:80"] })]), /SIGKILL/);
  await change([service(2)]);
  assert.equal(host.runner.dump(), dump);
});

Deno.test("repairs that the tool reports but does not carry out are repeated by later comparisons", async () => {
  const host = createHost();
  const { snapshot, change, backend } = await backendUnderTest(host);
  const port = service(1);
  await snapshot([port]);
  const dump = host.runner.dump();
  const rules = host.runner.rules("IPv4", "nat", chainOf(port)!)!.map((rule) =>
    rule.replace("10.244.1.1:", "10.244.9.9:")
  );
  for (let round = 0; round < 4; round++) {
    await tamper(
      host,
      "*nat",
      `:${chainOf(port)} - [0:0]`,
      ...rules.map((rule) => `-A ${chainOf(port)} ${rule}`),
      "COMMIT",
    );
    host.runner.inject(isRestore, { how: "prints", stdout: "" }, 3);
    for (let comparison = 0; comparison < 3; comparison++) await backend.resync();
    assert.deepEqual(reach(host, "10.96.0.1"), ["10.244.9.9:80"]);
    if (round % 2 === 0) {
      await change([service(1, { clusterEndpoints: ["10.244.2.2:80"] })]);
      await change([port]);
    }
    await backend.resync();
    assert.equal(host.runner.dump(), dump);
  }
});

Deno.test("chains that iptables-save prints differently are rewritten four times, and then no more", async () => {
  const host = createHost(), { run } = host.runner;
  const { snapshot, backend, takeInputs } = await backendUnderTest(host);
  await snapshot(services(2));
  host.runner.run = (call) =>
    run({ ...call, onLine: call.onLine && ((line) => call.onLine!(line.replace("--random-fully", "--random"))) });
  const rewritten: boolean[] = [];
  for (let comparison = 0; comparison < 6; comparison++) {
    takeInputs();
    assert.equal((await backend.resync()).counts["drift_repaired"], 0);
    rewritten.push(takeInputs().length > 0);
  }
  assert.deepEqual(rewritten, [true, true, true, true, false, false]);
});

Deno.test("a chain from which iptables-save always leaves out a rule is drift at each comparison", async () => {
  const host = createHost(), { run } = host.runner;
  const { snapshot, backend } = await backendUnderTest(host);
  await snapshot(services(1));
  host.runner.run = (call) =>
    run({ ...call, onLine: call.onLine && ((line) => line.includes("--random-fully") || call.onLine!(line)) });
  for (let comparison = 0; comparison < 6; comparison++) {
    assert.equal((await backend.resync()).counts["drift_repaired"], 1);
  }
});

Deno.test("a difference that was taken for a spelling is repaired once it keeps a chain from being deleted", async () => {
  const host = createHost();
  const { snapshot, change, backend } = await backendUnderTest(host);
  await snapshot([service(1), service(2)]);
  const [chain, other] = [chainOf(service(1))!, chainOf(service(2))!];
  const [first] = host.runner.rules("IPv4", "nat", chain)!;
  await tamper(host, "*nat", `:${chain} - [0:0]`, `-A ${chain} ${first}`, `-A ${chain} -j ${other}`, "COMMIT");
  for (let comparison = 0; comparison < 4; comparison++) {
    skipRestore(host);
    await backend.resync();
  }
  assert.deepEqual((await change([], [servicePortKey(service(2).name, "tcp")])).problems, []);
  assert.equal(host.runner.dump(), await freshDump([service(1)]));
});

Deno.test("the next comparison deletes duplicate jumps", async () => {
  const host = createHost();
  const { snapshot, backend } = await backendUnderTest(host);
  await snapshot(services(3));
  const dump = host.runner.dump();
  const jumps = dump.split("\n").filter((line) => /^-A (PREROUTING|OUTPUT) .*-j KUBE-SERVICES$/.test(line));
  await tamper(host, "*nat", jumps.at(-1)!, jumps.at(-1)!, "COMMIT");
  assert.notEqual(host.runner.dump(), dump);
  const { counts } = await backend.resync();
  assert.equal(host.runner.dump(), dump);
  assert.equal(counts["drift_repaired"], 2);
});

for (
  const [what, stdout] of [
    ["cut off", "*nat\n:KUBE-SERVICES - [0:0]\n"],
    ["unrelated", "Segmentation fault, maybe\n"],
    ["without table lines", "-A KUBE-SERVICES -j RETURN\nCOMMIT\n"],
  ] as const
) {
  Deno.test(`output of iptables-save that is ${what} is rejected, even with exit status 0`, async () => {
    const host = createHost();
    const { snapshot, backend, takeInputs } = await backendUnderTest(host);
    await snapshot(services(3));
    const dump = host.runner.dump();
    takeInputs();
    host.runner.inject(({ tool }) => tool === "iptables-save", { how: "prints", stdout }, 1);
    await assert.rejects(backend.resync(), /iptables-save succeeded, but its output/);
    assert.deepEqual(takeInputs(), []);
    await backend.resync();
    assert.equal(host.runner.dump(), dump);
  });
}
