import assert from "node:assert/strict";
import type { ServicePort, ServicePortKey } from "../../../../core/model/mod.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { REFUSED, REFUSING, rowsOf } from "../../../fakes/traffic.ts";
import { backendUnderTest, createHost, podSettings, tamper } from "./host.ts";

const COUNTING = podSettings({ countTraffic: true });
const ONE = "10.244.1.1:8080", TWO = "10.244.2.1:8080";
const WEB = fakeServicePort("default/web:http", { nodePort: 30080, clusterEndpoints: [ONE, TWO] });
const DNS = fakeServicePort("kube-system/dns", {
  clusterIP: "10.96.0.53",
  port: 53,
  clusterEndpoints: ["10.244.1.3:53"],
});
const NODE = "192.168.1.1";

async function counting(ports: readonly ServicePort[] = [WEB, DNS], settings = COUNTING, host = newHost()) {
  const under = await backendUnderTest(host);
  assert.deepEqual((await under.snapshot(ports, settings)).problems, []);
  const read = async () => {
    const reading = await under.backend.readTraffic!();
    return reading && rowsOf(reading);
  };
  const connections = async () => {
    const sums = new Map<string, number>();
    for (const row of await read() ?? []) {
      const [key = "", , counts = ""] = row.split(" ");
      sums.set(key, (sums.get(key) ?? 0) + Number(counts.split(",")[0]));
    }
    return Object.fromEntries(sums);
  };
  const connect = (
    times: number,
    to = "10.96.0.10",
    port = 80,
    from: "pod-on-node" | "node" | "outside" = "pod-on-node",
  ) => {
    for (let i = 0; i < times; i++) host.runner.send({ from, to, port });
  };
  return { ...under, host, read, connections, connect };
}

function newHost() {
  return createHost({ surroundings: { nodeAddresses: [NODE] } });
}

const WEB_KEY: ServicePortKey = "default/web:http|tcp";

Deno.test("connections are counted once, by endpoint, whatever their frontend and source", async () => {
  const { read, connections, connect } = await counting();
  assert.deepEqual(await read(), []);
  for (const from of ["pod-on-node", "node", "outside"] as const) connect(4, "10.96.0.10", 80, from);
  connect(3, NODE, 30080, "outside");
  connect(2, "10.96.0.53", 53);
  assert.deepEqual(await connections(), { [WEB_KEY]: 15, "kube-system/dns|tcp": 2 });
  assert.deepEqual(await read(), []);
  connect(1, "10.96.0.53", 53);
  assert.deepEqual(await read(), ["kube-system/dns|tcp 10.244.1.3:53 1,0,0"]);
});

Deno.test("both rules of an endpoint with session affinity count for it", async () => {
  const { read, connect } = await counting([{ ...WEB, clusterEndpoints: [ONE], affinitySeconds: 60 }]);
  connect(3);
  assert.deepEqual(await read(), [`${WEB_KEY} ${ONE} 3,0,0`]);
  connect(2);
  assert.deepEqual(await read(), [`${WEB_KEY} ${ONE} 2,0,0`]);
});

Deno.test("failed packets are counted by reason", async () => {
  const { read, connect } = await counting(REFUSING);
  connect(1);
  for (const port of [30081, 30083]) connect(2, NODE, port, "outside");
  connect(1, "192.0.2.2", 80, "outside");
  assert.deepEqual(await read(), REFUSED);
  assert.deepEqual(await read(), []);
});

Deno.test("connections before a change of endpoints are counted, and the new rules count from 0", async () => {
  const { connections, connect, change } = await counting([{ ...WEB, clusterEndpoints: [ONE] }, DNS]);
  connect(5);
  assert.deepEqual(await connections(), { [WEB_KEY]: 5 });
  connect(2);
  await change([WEB]);
  connect(9);
  connect(1, "10.96.0.53", 53);
  assert.deepEqual(await connections(), { [WEB_KEY]: 11, "kube-system/dns|tcp": 1 });
});

Deno.test("a change that the kernel refuses counts nothing twice", async () => {
  const { host, connections, connect, change } = await counting([{ ...WEB, clusterEndpoints: [ONE] }]);
  connect(5);
  await connections();
  const stderr = "Another app is currently holding the xtables lock.\n";
  const repair = host.runner.inject(({ tool }) => tool === "iptables-restore", { how: "exits", exitCode: 4, stderr });
  await assert.rejects(change([WEB]));
  repair();
  connect(1);
  assert.deepEqual(await connections(), { [WEB_KEY]: 1 });
});

Deno.test("a change of many services is not delayed by readings of their counters", async () => {
  const many = Array.from(
    { length: 9 },
    (_, i) => fakeServicePort(`default/s${i}`, { clusterIP: `10.96.1.${i}`, clusterEndpoints: [ONE] }),
  );
  const { host, change } = await counting(many);
  const listed = () => host.runner.calls.filter(({ args }) => args.includes("-S") && args.includes("nat")).length;
  host.runner.forgetCalls();
  await change(many.map((port) => ({ ...port, clusterEndpoints: [TWO] })));
  assert.equal(listed(), 0);
  await change(many.slice(0, 8).map((port) => ({ ...port, clusterEndpoints: [ONE] })));
  assert.equal(listed(), 8);
});

Deno.test("a restarted worker does not count again what an earlier one has counted", async () => {
  const { host, connections, connect } = await counting();
  connect(3);
  await connections();
  const successor = await counting([WEB, DNS], COUNTING, host);
  assert.deepEqual(await successor.read(), []);
  connect(2);
  assert.deepEqual(await successor.connections(), { [WEB_KEY]: 2 });
});

Deno.test("counters that another program resets count from 0", async () => {
  const { host, connections, connect, backend } = await counting([WEB]);
  connect(3);
  await connections();
  const chains = host.runner.chains("IPv4", "nat").filter((chain) => chain.startsWith("KUBE-SVC-"));
  await tamper(host, "*nat", ...chains.map((chain) => `-F ${chain}`), "COMMIT");
  await backend.resync();
  connect(1);
  assert.deepEqual(await connections(), { [WEB_KEY]: 1 });
});

Deno.test("a restore waits for a reading under way, and a reading for a restore", async () => {
  const { host, connections, connect, change, backend } = await counting([WEB]);
  connect(2);
  host.runner.forgetCalls();
  const [reading] = await Promise.all([connections(), change([{ ...WEB, clusterEndpoints: [ONE] }])]);
  assert.deepEqual(reading, { [WEB_KEY]: 2 });
  const order = () => host.runner.calls.map(({ tool, args }) => tool.endsWith("-restore") ? "restore" : args.at(-1));
  assert.deepEqual(order().indexOf("restore") > order().lastIndexOf("-S"), true);
  connect(1);
  host.runner.forgetCalls();
  const changed = change([WEB]);
  while (!order().includes("restore")) await Promise.resolve();
  const later = backend.readTraffic!();
  await Promise.all([changed, later]);
  assert.equal((await later)!.counts[0], 1);
});

Deno.test("without traffic metrics nothing is listed or counted, and the rules are the same", async () => {
  const plain = await counting([WEB], podSettings());
  assert.equal(await plain.read(), undefined);
  assert.deepEqual(plain.host.runner.calls.filter(({ args }) => args.includes("-S")), []);
  const counted = await counting([WEB]);
  assert.equal(plain.host.runner.dump(), counted.host.runner.dump());
});
