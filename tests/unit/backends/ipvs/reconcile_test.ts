/** The calls that bring the kernel to the desired state, and their failures. */
import assert from "node:assert/strict";
import { UnsupportedHostError } from "../../../../backends/contract/backend.ts";
import { loadBackend } from "../../../../backends/registry.ts";
import { IPVS_SCHEDULERS, type ServicePort } from "../../../../core/model/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { hasAddress } from "../../../fakes/ipvs/kernel.ts";
import { outcomeShares } from "../../../fakes/packet.ts";
import type { FakeRunner } from "../../../fakes/runner.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, createIpvsHost, IPVS_SETTINGS, ipvsModeSettings } from "./host.ts";

const ENDPOINTS = ["10.244.1.1:8080", "10.244.1.2:8080"];
const KEY = "-t 10.96.0.10:80";
const web = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/web:http", { clusterEndpoints: ENDPOINTS, external: "reject", ...changes });
const MINUTE_MS = 60_000;

/** The real servers of a virtual server with their weights. */
const weights = (host: ReturnType<typeof createIpvsHost>, key = KEY) =>
  Object.fromEntries([...host.runner.ipvs.servers.get(key)?.reals ?? []].map(([real, { weight }]) => [real, weight]));

Deno.test("the first sync calls each tool once and ipvsadm twice; a sync without changes calls none", async () => {
  const { snapshot, change, takeWrites } = await backendUnderTest();
  await snapshot([web(), web({ name: "default/b:http", clusterIP: "10.96.0.11" })]);
  assert.deepEqual(takeWrites().map(({ tool }) => tool), ["ipset", "iptables-restore", "ipvsadm", "ip", "ipvsadm"]);
  await change([]);
  await change([web()]);
  assert.deepEqual(takeWrites(), []);
});

Deno.test("a change calls each tool that it concerns once, and ipvsadm twice for a new address", async () => {
  const { snapshot, change, takeWrites } = await backendUnderTest();
  const others = Array.from({ length: 50 }, (_, i) => web({ name: `default/o${i}:p`, clusterIP: `10.97.0.${i}` }));
  await snapshot([web(), ...others]);
  takeWrites();
  await change([web({ clusterEndpoints: [ENDPOINTS[0]!, "10.244.1.3:8080"] })]);
  assert.deepEqual(takeWrites(), [{
    tool: "ipvsadm",
    input: `-a ${KEY} -r 10.244.1.3:8080 -m -w 1\n-e ${KEY} -r 10.244.1.2:8080 -m -w 0\n`,
  }]);
  await change([web({ name: "default/new:p", clusterIP: "10.96.0.12" })]);
  assert.deepEqual(takeWrites(), [
    { tool: "ipset", input: "add KUBE-IPVS-IPS 10.96.0.12\nadd KUBE-CLUSTER-IP 10.96.0.12,tcp:80\n" },
    { tool: "ipvsadm", input: "-A -t 10.96.0.12:80 -s rr\n" },
    { tool: "ip", input: "addr add 10.96.0.12/32 dev kube-ipvs0\n" },
    { tool: "ipvsadm", input: ENDPOINTS.map((real) => `-a -t 10.96.0.12:80 -r ${real} -m -w 1\n`).join("") },
  ]);
  const second = web({ name: "default/new:q", clusterIP: "10.96.0.12", port: 81 });
  await change([second]);
  assert.deepEqual(takeWrites().map(({ tool }) => tool), ["ipset", "ipvsadm"]);
  await change([], ["default/new:q|tcp"]);
  takeWrites();
  await change([], ["default/new:p|tcp"]);
  assert.deepEqual(takeWrites().map(({ input }) => input), [
    "del KUBE-IPVS-IPS 10.96.0.12\ndel KUBE-CLUSTER-IP 10.96.0.12,tcp:80\n",
    "addr del 10.96.0.12/32 dev kube-ipvs0\n",
    "-D -t 10.96.0.12:80\n",
  ]);
});

Deno.test("packets to a new address are routed on, then refused, then served, and never anything else", async () => {
  const host = createIpvsHost();
  const seen: string[] = [];
  const elsewhere = JSON.stringify({ passed: 1 });
  const ask = () => {
    const outcome = JSON.stringify(outcomeShares(host.runner, { from: "pod-on-node", to: "10.96.0.12", port: 80 }));
    return outcome === elsewhere && hasAddress(host.runner.ipvs, "10.96.0.12") ? "a program of this host" : outcome;
  };
  const watched: FakeRunner = {
    ...host.runner,
    async run(call) {
      const result = await host.runner.run(call);
      seen.push(ask());
      return result;
    },
  };
  const { snapshot, change } = await backendUnderTest({ ...host, runner: watched });
  const steps = async (sync: Promise<unknown>) => {
    seen.length = 0;
    await sync;
    return seen.filter((outcome, i) => outcome !== seen[i - 1]);
  };
  const refused = JSON.stringify({ rejected: 1 });
  const served = JSON.stringify(Object.fromEntries(ENDPOINTS.map((endpoint) => [endpoint, 0.5])));
  const added = web({ name: "default/new:p", clusterIP: "10.96.0.12" });
  assert.deepEqual(await steps(snapshot([web(), added])), [elsewhere, refused, served]);
  assert.deepEqual(await steps(change([], ["default/new:p|tcp"])), [served, elsewhere]);
  assert.deepEqual(await steps(change([added])), [elsewhere, refused, served]);
});

Deno.test("a failure of the rules is reported and does not delay virtual servers", async () => {
  const host = createIpvsHost();
  const under = await backendUnderTest(host);
  await under.snapshot([web()]);
  const closed = web({ nodePort: 30080, loadBalancerIPs: ["192.0.2.1"], clusterEndpoints: [ENDPOINTS[0]!] });
  const failing = { how: "exits", exitCode: 1, stderr: "iptables-restore: no memory" } as const;
  host.runner.inject(({ tool }) => tool === "iptables-restore", failing);
  await assert.rejects(under.snapshot([closed], ipvsModeSettings({ masqueradeAll: true })), /no memory/);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 0 });
});

Deno.test("a restart reads the kernel and changes nothing", async () => {
  const host = createIpvsHost();
  await (await backendUnderTest(host)).snapshot([web({ nodePort: 30080, endpointsOnThisNode: [ENDPOINTS[0]!] })]);
  const again = await backendUnderTest(host);
  await again.snapshot([web({ nodePort: 30080, endpointsOnThisNode: [ENDPOINTS[0]!] })]);
  assert.deepEqual(again.takeWrites(), []);
});

Deno.test("a removed endpoint gets no new connections, and is removed when its last connection has ended", async () => {
  const host = createIpvsHost();
  const { snapshot, change, clock } = await backendUnderTest(host);
  await snapshot([web()]);
  const real = host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[1]!)!;
  real.active = 1;
  let result = await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 0 });
  assert.ok(result.againAfterMs !== undefined && result.againAfterMs <= MINUTE_MS);
  clock.advance(result.againAfterMs);
  // An inactive connection may still receive packets.
  for (const connections of [{ active: 1, inactive: 0 }, { active: 0, inactive: 1 }]) {
    Object.assign(real, connections);
    result = await change([]);
    assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 0 });
    assert.equal(result.againAfterMs, MINUTE_MS);
    clock.advance(MINUTE_MS);
  }
  real.inactive = 0;
  result = await change([]);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1 });
  assert.equal(result.againAfterMs, undefined);
});

Deno.test("an endpoint that returns while it terminates keeps its connections", async () => {
  const host = createIpvsHost();
  const { snapshot, change, takeWrites, clock } = await backendUnderTest(host);
  await snapshot([web()]);
  host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[1]!)!.active = 1;
  await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  takeWrites();
  const { againAfterMs } = await change([web()]);
  assert.deepEqual(takeWrites().map(({ input }) => input), [`-e ${KEY} -r ${ENDPOINTS[1]} -m -w 1\n`]);
  assert.equal(againAfterMs, undefined);
  clock.advance(10 * MINUTE_MS);
  await change([]);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 1 });
});

Deno.test("connections are counted after 5 s, then once a minute, and for at most 2% of the time", async () => {
  for (const [countMs, nextMs] of [[10, MINUTE_MS], [2_000, 100_000]] as const) {
    const host = createIpvsHost();
    const runner: FakeRunner = {
      ...host.runner,
      run(call) {
        if (call.args[0] === "-Ln") host.clock.advance(countMs);
        return host.runner.run(call);
      },
    };
    const { snapshot, change } = await backendUnderTest({ ...host, runner });
    await snapshot([web()]);
    host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[1]!)!.active = 1;
    assert.equal((await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })])).againAfterMs, 5_000);
    host.clock.advance(5_000);
    assert.equal((await change([])).againAfterMs, nextMs);
  }
});

Deno.test("a real server that could not be removed when its connections had ended is removed later", async () => {
  const host = createIpvsHost();
  const { snapshot, change, clock } = await backendUnderTest(host);
  await snapshot([web()]);
  let { againAfterMs } = await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  host.runner.inject(({ stdin }) => stdin.startsWith("-d "), { how: "exits", exitCode: 1, stderr: "no memory" }, 1);
  for (const left of [{ [ENDPOINTS[1]!]: 0 }, {}]) {
    clock.advance(againAfterMs!);
    ({ againAfterMs } = await change([]));
    assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, ...left });
  }
});

Deno.test("a comparison while connections are waited for does not bring the next count forward", async () => {
  const host = createIpvsHost();
  const { snapshot, change, backend, clock } = await backendUnderTest(host);
  await snapshot([web()]);
  host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[1]!)!.active = 1;
  await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  clock.advance(5_000);
  await change([]);
  clock.advance(10_000);
  assert.equal((await backend.resync()).againAfterMs, MINUTE_MS - 10_000);
});

Deno.test("a terminating real server that another program removed is not waited for, nor removed again", async () => {
  const host = createIpvsHost();
  const { snapshot, change, takeWrites, clock } = await backendUnderTest(host);
  await snapshot([web()]);
  host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[1]!)!.active = 1;
  await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  host.runner.ipvs.servers.get(KEY)!.reals.delete(ENDPOINTS[1]!);
  takeWrites();
  clock.advance(5_000);
  assert.equal((await change([])).againAfterMs, undefined);
  assert.deepEqual(takeWrites(), []);
});

Deno.test("an endpoint that returns after another program deleted its virtual server is served", async () => {
  const host = createIpvsHost();
  const { snapshot, change } = await backendUnderTest(host);
  await snapshot([web()]);
  await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  host.runner.ipvs.servers.delete(KEY);
  assert.deepEqual((await change([web()])).problems, []);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 1 });
});

Deno.test("real servers of a virtual server that the kernel no longer has are not waited for", async () => {
  const host = createIpvsHost();
  const { snapshot, change, backend } = await backendUnderTest(host);
  await snapshot([web()]);
  host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[1]!)!.active = 1;
  await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  host.runner.ipvs.servers.delete(KEY);
  assert.equal((await backend.resync()).againAfterMs, undefined);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1 });
});

Deno.test("graceful termination continues after a restart", async () => {
  const host = createIpvsHost();
  await (await backendUnderTest(host)).snapshot([web()]);
  host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[1]!)!.weight = 0;
  const { snapshot, change, clock } = await backendUnderTest(host);
  const { againAfterMs } = await snapshot([web({ clusterEndpoints: [ENDPOINTS[0]!] })]);
  clock.advance(againAfterMs!);
  await change([]);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1 });
});

for (const protocol of ["udp", "sctp"] as const) {
  Deno.test(`a removed ${protocol.toUpperCase()} endpoint is removed at once`, async () => {
    const host = createIpvsHost();
    const { snapshot, change } = await backendUnderTest(host);
    await snapshot([web({ protocol })]);
    const [key, server] = [...host.runner.ipvs.servers][0]!;
    server.reals.get(ENDPOINTS[1]!)!.active = 5;
    await change([web({ protocol, clusterEndpoints: [ENDPOINTS[0]!] })]);
    assert.deepEqual(weights(host, key), { [ENDPOINTS[0]!]: 1 });
  });
}

for (const [protocol, left] of [["tcp", { [ENDPOINTS[1]!]: 0 }], ["udp", {}]] as const) {
  Deno.test(`a real server of weight 0 that another program left ${protocol === "tcp" ? "terminates" : "is removed"}`, async () => {
    const host = createIpvsHost();
    const { snapshot, backend } = await backendUnderTest(host);
    await snapshot([web({ protocol, clusterEndpoints: [ENDPOINTS[0]!] })]);
    const [key, { reals }] = [...host.runner.ipvs.servers][0]!;
    reals.set(ENDPOINTS[1]!, { ...reals.get(ENDPOINTS[0]!)!, weight: 0, active: 1 });
    reals.get(ENDPOINTS[0]!)!.weight = 7;
    await backend.resync();
    assert.deepEqual(weights(host, key), { [ENDPOINTS[0]!]: 1, ...left });
  });
}

Deno.test("a changed definition of a virtual server leaves its real servers alone", async () => {
  const host = createIpvsHost();
  const { snapshot, change, takeWrites } = await backendUnderTest(host, "IPv4", { scheduler: "mh" });
  await snapshot([web()]);
  takeWrites();
  await change([web({ affinitySeconds: 10800 })]);
  assert.deepEqual(takeWrites().map(({ input }) => input), [`-E ${KEY} -s mh -p 10800 -b mh-port\n`]);
});

Deno.test("an endpoint that is removed later does not delay the count of another's connections", async () => {
  const { snapshot, change, clock } = await backendUnderTest();
  await snapshot([web({ clusterEndpoints: [...ENDPOINTS, "10.244.1.3:8080"] })]);
  assert.equal((await change([web()])).againAfterMs, 5_000);
  clock.advance(3_000);
  assert.equal((await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })])).againAfterMs, 2_000);
});

Deno.test("a new service counts as one operation for its virtual server, and one for each real server", async () => {
  const { snapshot, change, clock } = await backendUnderTest();
  assert.equal((await snapshot([web()])).counts.server_operations, 3);
  assert.equal((await change([web({ clusterEndpoints: [ENDPOINTS[0]!] })])).counts.server_operations, 1, "its weight");
  clock.advance(5_000);
  assert.equal((await change([])).counts.server_operations, 1, "its removal");
});

Deno.test("an address that another program removed is bound again without its virtual server being added", async () => {
  const host = createIpvsHost();
  const { snapshot, backend, takeWrites } = await backendUnderTest(host);
  await snapshot([web()]);
  host.runner.ipvs.interfaces.delete("kube-ipvs0");
  host.runner.ipvs.servers.get(KEY)!.reals.delete(ENDPOINTS[1]!);
  takeWrites();
  await backend.resync();
  const written = takeWrites().filter(({ tool }) => tool === "ipvsadm").map(({ input }) => input);
  assert.deepEqual(written, [`-a ${KEY} -r ${ENDPOINTS[1]} -m -w 1\n`]);
});

Deno.test("excluded virtual servers and those of the other family stay", async () => {
  const host = createIpvsHost();
  const server = () => ({ scheduler: "wrr", persistentSeconds: 0, flags: "", reals: new Map(), clients: new Map() });
  const { servers } = host.runner.ipvs;
  const others = ["-t 172.16.0.1:6443", "-u 172.16.0.1:53", "-t [fd00::1]:80", "-f 7"];
  for (const key of [...others, "-t 10.50.0.1:80"]) servers.set(key, server());
  const destination = { destination: "172.16.0.1", destinationPort: 53 };
  const flow = {
    source: "10.244.1.9",
    sourcePort: 4000,
    ...destination,
    answeredBy: { address: "10.9.9.9", port: 53 },
  };
  host.runner.conntrack.push(flow);
  const { snapshot, backend } = await backendUnderTest(host, "IPv4", { excludePrefixes: ["172.16.0.0/12"] });
  await snapshot([web()]);
  const { counts } = await backend.resync();
  assert.equal(counts["drift_repaired"], 0);
  assert.deepEqual([...servers.keys()].sort(), [KEY, ...others].sort());
  assert.deepEqual(host.runner.conntrack, [flow], "the flows of another program's virtual server stay");
});

Deno.test("a service in an excluded prefix is served, and kept by a restart", async () => {
  const host = createIpvsHost(), excluded = { excludePrefixes: ["10.96.0.0/16"] };
  await (await backendUnderTest(host, "IPv4", excluded)).snapshot([web()]);
  const again = await backendUnderTest(host, "IPv4", excluded);
  assert.deepEqual((await again.snapshot([web()])).problems, []);
  assert.deepEqual(again.takeWrites(), []);
  await again.change([], ["default/web:http|tcp"]);
  assert.ok(host.runner.ipvs.servers.has(KEY), "from now on it belongs to others, as in kube-proxy");
});

Deno.test("the next comparison finds, repairs and counts changes by other programs", async () => {
  const host = createIpvsHost();
  const { snapshot, backend, takeWrites } = await backendUnderTest(host);
  await snapshot([web({ nodePort: 30080 })]);
  const before = host.runner.dump("IPv4");
  const { servers, sets, interfaces } = host.runner.ipvs;
  servers.delete(KEY);
  sets.get("KUBE-CLUSTER-IP")!.entries.clear();
  interfaces.delete("kube-ipvs0");
  const { counts } = await backend.resync();
  assert.equal(host.runner.dump("IPv4"), before);
  assert.equal(counts["drift_repaired"], 3);
  takeWrites();
  await backend.resync();
  assert.deepEqual(takeWrites(), []);
});

Deno.test("after a failed tool the kernel is read again", async () => {
  const { snapshot, change, runner } = await backendUnderTest();
  await snapshot([web()]);
  runner.inject(
    ({ args }) => args[0] === "--restore",
    { how: "exits", exitCode: 1, stderr: "Cannot allocate memory" },
    1,
  );
  await assert.rejects(change([web({ clusterEndpoints: [] })]), /ipvsadm failed.*Cannot allocate memory/);
  runner.forgetCalls();
  await change([]);
  assert.deepEqual(runner.calls.map(({ tool, args }) => `${tool} ${args[0]}`), [
    "ip -o",
    "ip -4",
    "ipset save",
    "ipvsadm --save",
    "ipvsadm --restore",
  ]);
});

Deno.test("a new address of the node serves node ports from the next comparison on", async () => {
  const host = createIpvsHost();
  const { snapshot, backend } = await backendUnderTest(host);
  await snapshot([web({ nodePort: 30080, external: "cluster" })]);
  host.runner.ipvs.interfaces.set("eth7", new Set(["192.168.7.1/24"]));
  await backend.resync();
  assert.deepEqual(weights(host, "-t 192.168.7.1:30080"), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 1 });
  host.runner.ipvs.interfaces.delete("eth7");
  await backend.resync();
  assert.equal(host.runner.ipvs.servers.has("-t 192.168.7.1:30080"), false);
});

Deno.test("soon after a slow listing, a comparison reads the addresses and the rules only", async () => {
  const host = createIpvsHost();
  const runner: FakeRunner = {
    ...host.runner,
    run(call) {
      if (call.args[0] === "--save") host.clock.advance(2_000);
      return host.runner.run(call);
    },
  };
  const { snapshot, backend } = await backendUnderTest({ ...host, runner });
  await snapshot([web({ nodePort: 30080, external: "cluster" })]);
  host.runner.forgetCalls();
  host.runner.ipvs.interfaces.set("eth7", new Set(["192.168.7.1/24"]));
  await backend.resync("interval");
  assert.ok(host.runner.ipvs.servers.has("-t 192.168.7.1:30080"));
  const reads = host.runner.calls.filter(({ args }) => ["save", "--save"].includes(args[0]!));
  assert.deepEqual(reads.map(({ tool }) => tool), []);
});

Deno.test("a service that the kernel refuses is reported and does not delay others", async () => {
  const host = createIpvsHost();
  const { snapshot, change, backend, runner, takeWrites } = await backendUnderTest(host);
  await snapshot([web()]);
  // Without the scheduler the kernel refuses new virtual servers, but no changes of others.
  host.runner.ipvs.schedulers.delete("rr");
  const other = web({ name: "default/other:http", clusterIP: "10.96.0.11" });
  takeWrites();
  const { problems } = await change([other, web({ clusterEndpoints: [ENDPOINTS[0]!, "10.244.1.3:8080"] })]);
  const added = "-A -t 10.96.0.11:80 -s rr\n";
  assert.deepEqual(
    takeWrites().filter(({ tool }) => tool === "ipvsadm").map(({ input }) => input.startsWith(added)),
    [true, true, true],
    "alone, with everything else, and with its real servers",
  );
  assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/other:http"]);
  assert.match(problems[0]!.message, /virtual server -t 10\.96\.0\.11:80.*Scheduler or persistence engine not found/);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 0, "10.244.1.3:8080": 1 });
  runner.forgetCalls();
  assert.equal((await change([])).problems.length, 1);
  assert.deepEqual(runner.calls, []);
  host.runner.ipvs.schedulers.add("rr");
  assert.deepEqual((await backend.resync()).problems, []);
  assert.deepEqual(weights(host, "-t 10.96.0.11:80"), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 1 });
});

Deno.test("of a service that the kernel refuses in part, nothing stays once it is deleted", async () => {
  const host = createIpvsHost();
  const { snapshot, change } = await backendUnderTest(host);
  await snapshot([web()]);
  const refused = "10.244.1.9:8080", other = { name: "default/other:http", clusterIP: "10.96.0.11" };
  const failure = { how: "exits", exitCode: 255, stderr: "Destination refused" } as const;
  host.runner.inject(({ stdin }) => stdin.includes(` -r ${refused} `), failure);
  const { problems } = await change([web({ ...other, clusterEndpoints: [refused] })]);
  assert.equal(problems.length, 1);
  await change([], ["default/other:http|tcp"]);
  assert.deepEqual([...host.runner.ipvs.servers.keys()], [KEY]);
});

Deno.test("what the kernel has taken of a refused service at a known address is removed with it", async () => {
  const host = createIpvsHost();
  const { snapshot, change } = await backendUnderTest(host);
  await snapshot([web()]);
  const failure = { how: "exits", exitCode: 255, stderr: "Destination refused", afterItsWork: true } as const;
  const isRefused = ({ stdin }: { readonly stdin: string }) => stdin.startsWith("-A -t 10.96.0.10:81");
  // The first attempt writes nothing, so that the virtual server is tried alone.
  host.runner.inject(isRefused, { ...failure, afterItsWork: false }, 1);
  host.runner.inject(isRefused, failure);
  const { problems } = await change([web({ name: "default/web:other", port: 81 })]);
  assert.equal(problems.length, 1);
  await change([], ["default/web:other|tcp"]);
  assert.deepEqual([...host.runner.ipvs.servers.keys()], [KEY]);
});

Deno.test("a kernel that refuses very many virtual servers fails the sync", async () => {
  const host = createIpvsHost();
  const { snapshot } = await backendUnderTest(host);
  host.runner.ipvs.schedulers.delete("rr");
  const ports = (count: number) =>
    Array.from({ length: count }, (_, i) => web({ name: `default/s${i}:http`, clusterIP: `10.96.1.${i + 1}` }));
  assert.equal((await snapshot(ports(64))).problems.length, 64);
  await assert.rejects(snapshot(ports(129)), /Scheduler or persistence engine not found/);
});

Deno.test("IPv6 has its own sets, with names that the kernel accepts", async () => {
  const host = createIpvsHost();
  const six = web({ clusterIP: "fd00:10:96::a", clusterEndpoints: ["[fd00:244:1::1]:8080"], nodePort: 30080 });
  const { snapshot } = await backendUnderTest(host, "IPv6");
  await snapshot([six], ipvsModeSettings({ localTraffic: { by: "source-prefix", prefix: "fd00:244:1::/64" } }));
  const { sets, interfaces, servers } = host.runner.ipvs;
  assert.ok([...sets.keys()].every((name) => name.startsWith("KUBE-6-") && name.length <= 31));
  assert.deepEqual([...sets.get("KUBE-6-CLUSTER-IP")!.entries], ["fd00:10:96::a,tcp:80"]);
  assert.deepEqual([...interfaces.get("kube-ipvs0")!], ["fd00:10:96::a/128"]);
  assert.deepEqual([...servers.keys()], ["-t [fd00:10:96::a]:80", "-t [fd00:168::1]:30080"]);
});

Deno.test("kernel settings are those of kube-proxy", async () => {
  const host = createIpvsHost({ sysctls: { "kernel.osrelease": "5.4.0-generic" } });
  await backendUnderTest(host, "IPv4", { strictARP: true, timeoutSeconds: { tcp: 100, tcpFin: 0, udp: 7 } });
  const { sysctls, ipvs } = host.runner;
  const values = ["vs.conntrack", "vs.expire_nodest_conn", "vs.expire_quiescent_template", "ip_forward"]
    .map((name) => sysctls.get(`net.ipv4.${name}`));
  assert.deepEqual(values, ["1", "1", "1", "1"]);
  assert.equal(sysctls.get("net.ipv4.conf.all.arp_ignore"), "1");
  assert.equal(sysctls.get("net.ipv4.conf.all.arp_announce"), "2");
  assert.equal(sysctls.get("net.ipv4.vs.conn_reuse_mode"), "0");
  assert.deepEqual(ipvs.timeouts, [100, 120, 7]);
  assert.deepEqual([...ipvs.servers.keys()], []);
  const newer = createIpvsHost();
  await backendUnderTest(newer);
  assert.equal(newer.runner.sysctls.get("net.ipv4.vs.conn_reuse_mode"), "1");
  assert.equal(newer.runner.sysctls.get("net.ipv4.conf.all.arp_ignore"), "0");
});

Deno.test("connections with reused ports are rescheduled unless the kernel loses packets then, before 5.9", async () => {
  for (
    const [release, mode] of [["4.19.0", "0"], ["5.8.18", "0"], ["5.9.0", "1"], ["5.10.1", "1"], ["6.1.0", "1"], [
      "?",
      "1",
    ]]
  ) {
    const host = createIpvsHost({ sysctls: { "kernel.osrelease": release! } });
    await backendUnderTest(host);
    assert.equal(host.runner.sysctls.get("net.ipv4.vs.conn_reuse_mode"), mode, release);
  }
});

Deno.test("on an unsupported host the error names what is missing", async () => {
  const host = createIpvsHost();
  await assert.rejects(backendUnderTest(host, "IPv4", { scheduler: "wlc" }), (error) => {
    assert.ok(error instanceof UnsupportedHostError);
    assert.match(error.message, /no IPVS scheduler wlc \(the module ip_vs_wlc\)/);
    return true;
  });
  host.runner.ipvs.hasIpvs = false;
  await assert.rejects(
    backendUnderTest(host),
    /this kernel has no IPVS \(the module ip_vs\).*mode nftables or iptables/,
  );
  host.runner.inject(({ tool }) => tool === "ipset", { how: "is missing" });
  host.runner.ipvs.hasIpvs = true;
  await assert.rejects(backendUnderTest(host), /ipset is not installed.*ipvs mode needs/);
});

Deno.test("a host that lacks a privilege is not unsupported, and the error names the capability", async () => {
  const host = createIpvsHost();
  const stderr = "Permission denied (you must be root)";
  host.runner.inject(({ args }) => args[0] === "--restore", { how: "exits", exitCode: 1, stderr });
  await assert.rejects(
    backendUnderTest(host),
    (error) => !(error instanceof UnsupportedHostError) && /needs the capability CAP_NET_ADMIN/.test(String(error)),
  );
});

Deno.test("an address that the kernel refuses is a problem of its service and delays no other", async () => {
  const host = createIpvsHost();
  const { snapshot, change } = await backendUnderTest(host);
  await snapshot([web()]);
  host.runner.inject(({ tool, stdin }) => tool === "ip" && stdin.includes(" 10.96.0.66/32 "), {
    ...{ how: "exits", exitCode: 1 },
    stderr: "RTNETLINK answers: Cannot allocate memory\nCommand failed -:1\n",
  });
  const { problems } = await change([
    web({ name: "default/bad:http", clusterIP: "10.96.0.66" }),
    web({ clusterEndpoints: [ENDPOINTS[0]!] }),
  ]);
  assert.deepEqual(problems.map(({ servicePort }) => servicePort), ["default/bad:http"]);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 0 });
});

Deno.test("each element of a set that is added or deleted counts", async () => {
  const { snapshot, change } = await backendUnderTest();
  const changes = async (sync: ReturnType<typeof change>) => (await sync).counts.set_changes;
  assert.equal(await changes(snapshot([web()])), 2);
  assert.equal(await changes(change([web({ name: "default/web:other", port: 81 })])), 1);
  assert.equal(await changes(change([], ["default/web:http|tcp", "default/web:other|tcp"])), 3);
  assert.equal(await changes(change([])), 0);
});

Deno.test("a service port is described by its virtual servers, set elements and addresses, as the tools write them", async () => {
  const { snapshot, backend } = await backendUnderTest();
  await snapshot([web({ clusterEndpoints: [ENDPOINTS[0]!], nodePort: 30080, external: "cluster" })]);
  const described = await backend.describe!("default/web:http|tcp");
  assert.deepEqual(described!.parts.map(({ place, lines }) => `${place}: ${lines.join("; ")}`), [
    `virtual server ${KEY}: -A ${KEY} -s rr; -a ${KEY} -r ${ENDPOINTS[0]} -m -w 1`,
    "virtual server -t 192.168.1.1:30080: -A -t 192.168.1.1:30080 -s rr; " +
    `-a -t 192.168.1.1:30080 -r ${ENDPOINTS[0]} -m -w 1`,
    "set KUBE-IPVS-IPS: 10.96.0.10",
    "set KUBE-CLUSTER-IP: 10.96.0.10,tcp:80",
    "set KUBE-NODE-PORT-TCP: 30080",
    "addresses of kube-ipvs0: 10.96.0.10",
  ]);
});

Deno.test("cleanup removes everything of Sluice and nothing else", async () => {
  const host = createIpvsHost();
  const { runner } = host;
  const four = await backendUnderTest(host);
  const six = await backendUnderTest(host, "IPv6");
  const stranger = { scheduler: "rr", persistentSeconds: 0, flags: "", reals: new Map(), clients: new Map() };
  runner.ipvs.servers.set("-t 192.168.1.1:6443", stranger);
  runner.ipvs.sets.set("MINE", { type: "hash:ip", options: "family inet", entries: new Set(["192.0.2.9"]) });
  const before = [...runner.ipvs.servers.keys(), ...runner.ipvs.sets.keys(), ...runner.ipvs.interfaces.keys()];
  const options = { ...IPVS_SETTINGS, excludePrefixes: ["192.168.1.1/32"] };
  const excluding = await backendUnderTest(host, "IPv4", options);
  await excluding.snapshot([web({ nodePort: 30080, external: "cluster" })]);
  const settings = ipvsModeSettings({ localTraffic: { by: "none" } });
  await six.snapshot([web({ clusterIP: "fd00:10:96::a", clusterEndpoints: [] })], settings);
  await four.backend.cleanup();
  assert.ok(runner.ipvs.interfaces.has("kube-ipvs0"));
  await six.backend.cleanup();
  const after = [...runner.ipvs.servers.keys(), ...runner.ipvs.sets.keys(), ...runner.ipvs.interfaces.keys()];
  assert.deepEqual(after, before);
  // The martian rule goes when the traces of all modes have gone.
  assert.deepEqual([...new Set(runner.dump().match(/KUBE-[A-Z-]+/g))], ["KUBE-MARTIANS"]);
});

Deno.test("iptables mode and IPVS mode take over from each other without leaving traces", async () => {
  const host = createIpvsHost();
  const { runner, clock } = host;
  const start = async (mode: "iptables" | "ipvs") => {
    const backend = await loadBackend(mode, {
      family: "IPv4",
      runner,
      clock,
      logger: silentLogger,
      ipvs: IPVS_SETTINGS,
    });
    await backend.setup();
    const ports = [
      web({ nodePort: 30080, external: "cluster" }),
      web({ name: "default/gone:p", clusterIP: "10.96.0.11", internal: "reject", clusterEndpoints: [] }),
    ];
    await backend.sync({ revision: 1, base: undefined, settings: ipvsModeSettings({ mode }), set: ports, deleted: [] });
    // The order of the jumps depends on which mode came first.
    return runner.dump("IPv4").split("\n").sort().join("\n");
  };
  const iptables = await start("iptables");
  const ipvs = await start("ipvs");
  assert.match(ipvs, /KUBE-IPVS-FILTER/);
  assert.doesNotMatch(ipvs, /KUBE-SVC-|KUBE-NODEPORTS|KUBE-EXTERNAL-SERVICES/);
  assert.equal(await start("iptables"), iptables);
  assert.equal(await start("ipvs"), ipvs);
});

Deno.test("a comparison repairs rules that another program deleted", async () => {
  const { snapshot, backend, runner } = await backendUnderTest();
  await snapshot([web()]);
  const dump = runner.dump("IPv4");
  await runner.run({ tool: "iptables-restore", args: ["--noflush"], stdin: ["*nat\n-F KUBE-SERVICES\nCOMMIT\n"] });
  assert.notEqual(runner.dump("IPv4"), dump);
  assert.equal((await backend.resync()).counts.drift_repaired, 1);
  assert.equal(runner.dump("IPv4"), dump);
});

Deno.test("a set element that the kernel refuses is reported and delays no other", async () => {
  const { snapshot, runner } = await backendUnderTest();
  const stderr = (line: number) => `ipset v7.17: Error in line ${line}: Element cannot be added to the set`;
  const lineOf = (stdin: string) => stdin.split("\n").findIndex((line) => line.includes("10.96.0.66,")) + 1;
  for (let line = 1; line < 40; line++) {
    runner.inject(({ tool, stdin }) => tool === "ipset" && lineOf(stdin) === line, {
      how: "exits",
      exitCode: 1,
      stderr: stderr(line),
    });
  }
  const { problems } = await snapshot([web(), web({ name: "default/bad:http", clusterIP: "10.96.0.66" })]);
  assert.deepEqual([...new Set(problems.map(({ servicePort }) => servicePort))], ["default/bad:http"]);
  assert.match(problems[0]!.message, /the kernel refuses the set element .*10\.96\.0\.66.*Element cannot be added/);
  assert.ok([...runner.ipvs.sets.get("KUBE-CLUSTER-IP")!.entries].some((entry) => entry.includes("10.96.0.10,")));
});

Deno.test("a kernel that refuses every set element fails the sync after 32 of them", async () => {
  const { snapshot, runner } = await backendUnderTest();
  const lineOf = (stdin: string) => stdin.split("\n").findIndex((line) => /^add .*10\.96\.1\./.test(line)) + 1;
  let tries = 0;
  for (let line = 1; line < 60; line++) {
    const stderr = `ipset v7.17: Error in line ${line}: Element cannot be added to the set`;
    runner.inject(({ tool, stdin }) => {
      const isRefused = tool === "ipset" && lineOf(stdin) === line;
      if (isRefused) tries++;
      return isRefused;
    }, { how: "exits", exitCode: 1, stderr });
  }
  const ports = Array.from(
    { length: 40 },
    (_, i) => web({ name: `default/s${i}:http`, clusterIP: `10.96.1.${i + 1}` }),
  );
  await assert.rejects(snapshot(ports), /Element cannot be added/);
  assert.equal(tries, 1 + 32);
});

Deno.test("each service port has the scheduler of its algorithm, with weights where it has them", async () => {
  const cases: readonly [ServicePort["balance"], string][] = [
    [undefined, "-s rr"],
    [{ algorithm: "round-robin" }, "-s rr"],
    [{ algorithm: "round-robin", clusterWeights: [3, 1] }, "-s wrr"],
    [{ algorithm: "least-connections" }, "-s lc"],
    [{ algorithm: "least-connections", clusterWeights: [3, 1] }, "-s wlc"],
    [{ algorithm: "consistent-hash", hash: "flow" }, "-s mh -b mh-port"],
    [{ algorithm: "consistent-hash", hash: "client", clusterWeights: [3, 1] }, "-s mh"],
    [{ algorithm: "sed" }, "-s sed"],
  ];
  for (const [balance, definition] of cases) {
    const host = createIpvsHost();
    for (const scheduler of IPVS_SCHEDULERS) host.runner.ipvs.schedulers.add(scheduler);
    const { snapshot, takeWrites } = await backendUnderTest(host);
    await snapshot([web({ balance })]);
    const [first = 1, second = 1] = balance?.clusterWeights ?? [];
    const [, , added, , reals] = takeWrites().map(({ input }) => input);
    assert.equal(added, `-A ${KEY} ${definition}\n`);
    assert.equal(
      reals,
      `-a ${KEY} -r ${ENDPOINTS[0]} -m -w ${first}\n-a ${KEY} -r ${ENDPOINTS[1]} -m -w ${second}\n`,
    );
  }
});

Deno.test("changed weights update real servers, one of weight 0 terminates, and a restart keeps them", async () => {
  const host = createIpvsHost();
  const weighted = (...clusterWeights: number[]) => web({ balance: { algorithm: "rr", clusterWeights } });
  const { snapshot, change, takeWrites } = await backendUnderTest(host);
  await snapshot([weighted(3, 1)]);
  takeWrites();
  await change([weighted(3, 2)]);
  assert.deepEqual(takeWrites().map(({ input }) => input), [`-e ${KEY} -r ${ENDPOINTS[1]} -m -w 2\n`]);
  const restarted = await backendUnderTest(host);
  await restarted.snapshot([weighted(3, 2)]);
  assert.deepEqual(restarted.takeWrites(), []);
  host.runner.ipvs.servers.get(KEY)!.reals.get(ENDPOINTS[0]!)!.weight = 9;
  assert.equal((await restarted.backend.resync()).counts["drift_repaired"], 1);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 3, [ENDPOINTS[1]!]: 2 });
  await restarted.change([weighted(3, 0)]);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 3, [ENDPOINTS[1]!]: 0 });
  await restarted.change([web()]);
  assert.deepEqual(weights(host), { [ENDPOINTS[0]!]: 1, [ENDPOINTS[1]!]: 1 });
});
