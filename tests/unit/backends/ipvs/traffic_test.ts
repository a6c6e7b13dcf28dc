import assert from "node:assert/strict";
import { createTrafficReader } from "../../../../backends/ipvs/traffic_reader.ts";
import type { RealServerCounters } from "../../../../backends/ipvs/virtual_servers.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { fakeServicePort, fakeSettings } from "../../../fakes/service_port.ts";
import { rowsOf } from "../../../fakes/traffic.ts";
import { backendUnderTest, createIpvsHost } from "./host.ts";

const COUNTING = fakeSettings({ mode: "ipvs", countTraffic: true });
const ONE = "10.1.0.1:8080", TWO = "10.1.0.2:8080";
const WEB = fakeServicePort("default/web:http", { nodePort: 30080, clusterEndpoints: [ONE] });
const DNS = fakeServicePort("kube-system/dns", { clusterIP: "10.96.0.53", port: 53, clusterEndpoints: [TWO] });
const NODE = "192.168.1.1";

async function counting(settings = COUNTING, host = createIpvsHost({ surroundings: { nodeAddresses: [NODE] } })) {
  const under = await backendUnderTest(host);
  assert.deepEqual((await under.snapshot([WEB, DNS], settings)).problems, []);
  const read = async () => {
    const reading = await under.backend.readTraffic!();
    return reading && rowsOf(reading);
  };
  const connect = (times: number, to = "10.96.0.10", port = 80) => {
    for (let i = 0; i < times; i++) host.runner.send({ from: "outside", to, port });
  };
  return { ...under, host, read, connect };
}

Deno.test("a reading has the connections, packets and bytes of each endpoint, of all frontends together", async () => {
  const { read, connect } = await counting();
  assert.deepEqual(await read(), []);
  connect(3);
  connect(2, NODE, 30080);
  connect(1, "10.96.0.53", 53);
  assert.deepEqual(await read(), [`default/web:http|tcp ${ONE} 5,5,300`, `kube-system/dns|tcp ${TWO} 1,1,60`]);
  assert.deepEqual(await read(), []);
});

Deno.test("virtual servers of the other family and of other programs are not counted", async () => {
  const { host, read, connect } = await counting();
  const server = host.runner.ipvs.servers.get("-t 10.96.0.10:80")!;
  host.runner.ipvs.servers.set("-t 10.99.0.1:80", { ...server });
  host.runner.ipvs.servers.set("-t [fd00::1]:80", { ...server });
  connect(1);
  assert.deepEqual(await read(), [`default/web:http|tcp ${ONE} 1,1,60`]);
});

Deno.test("an endpoint that comes back counts from where the kernel left off", async () => {
  const { read, connect, host } = await counting();
  const { ipvs } = host.runner;
  connect(5);
  await read();
  const server = ipvs.servers.get("-t 10.96.0.10:80")!, { connections } = server.reals.get(ONE)!;
  server.reals.delete(ONE);
  await read();
  server.reals.set(ONE, { weight: 1, active: 0, inactive: 0, connections });
  connect(1);
  assert.deepEqual(await read(), [`default/web:http|tcp ${ONE} 1,1,60`]);
  host.clock.advance(180_000);
  await read();
  const back = server.reals.get(ONE)!;
  server.reals.delete(ONE);
  for (let reading = 0; reading < 2; reading++) await read();
  server.reals.set(ONE, back);
  connect(1);
  assert.deepEqual(await read(), [`default/web:http|tcp ${ONE} 1,1,60`], "endpoints are forgotten every 3 minutes");
  server.reals.delete(ONE);
  host.clock.advance(180_000);
  await read();
  host.clock.advance(180_000);
  await read();
  server.reals.set(ONE, { weight: 1, active: 0, inactive: 0, connections: 0 });
  connect(7);
  assert.deepEqual(await read(), [`default/web:http|tcp ${ONE} 7,7,420`]);
});

Deno.test("a restarted worker does not count again what an earlier one has counted", async () => {
  const { host, read, connect } = await counting();
  connect(3);
  await read();
  const successor = await counting(COUNTING, host);
  assert.deepEqual(await successor.read(), []);
  connect(2);
  assert.deepEqual(await successor.read(), [`default/web:http|tcp ${ONE} 2,2,120`]);
});

Deno.test("counters that cannot be read at the start are noted by the next reading", async () => {
  const { host, connect } = await counting(fakeSettings({ mode: "ipvs" }));
  connect(3);
  const repair = host.runner.inject(({ args }) => args.includes("--stats"), {
    how: "exits",
    exitCode: 1,
    stderr: "no",
  });
  const successor = await counting(COUNTING, host);
  repair();
  assert.deepEqual(await successor.read(), []);
  connect(1);
  assert.deepEqual(await successor.read(), [`default/web:http|tcp ${ONE} 1,1,60`]);
});

Deno.test("counters are not listed if the settings do not ask for it", async () => {
  const { host, read } = await counting(fakeSettings({ mode: "ipvs" }));
  assert.equal(await read(), undefined);
  assert.deepEqual(host.runner.calls.filter(({ args }) => args.includes("--stats")), []);
});

Deno.test("packets of connections that were open before are no new connections", async () => {
  const counters = {
    protocol: "tcp",
    address: "10.96.0.10",
    port: 80,
    real: ONE,
    connections: 4,
    packets: 10,
    bytes: 900,
  } as const;
  let now: RealServerCounters = counters;
  const servers = { counters: (onReal: (counters: RealServerCounters) => void) => Promise.resolve(onReal(now)) };
  const reader = createTrafficReader({ servicePorts: () => [WEB] }, servers, createFakeClock());
  await reader.read();
  now = { ...counters, packets: 12, bytes: 1_000 };
  assert.deepEqual(rowsOf((await reader.read())!), [`default/web:http|tcp ${ONE} 0,2,100`]);
});
