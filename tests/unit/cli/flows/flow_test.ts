import assert from "node:assert/strict";
import { createServiceFinder, type Flow, flowLine, readFlows } from "../../../../cli/flows/flow.ts";
import type { Family, Protocol } from "../../../../core/model/mod.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { runnerThatPrints } from "./printing_runner.ts";

const TO = "src=10.1.0.2 dst=10.96.0.10 sport=51604 dport=80",
  BACK = "src=10.2.0.2 dst=10.1.0.2 sport=8080 dport=51604";
/** Lines of conntrack 1.4.7. */
const TCP = [
  `[1795338711.923279]	    [NEW] ipv4     2 tcp      6 120 SYN_SENT ${TO} [UNREPLIED] ${BACK} id=209`,
  `[1795338711.923360]	 [UPDATE] ipv4     2 tcp      6 60 SYN_RECV ${TO} ${BACK} id=209`,
  `[1795338711.933403]	 [UPDATE] ipv4     2 tcp      6 120 TIME_WAIT ${TO} ${BACK} [ASSURED] id=209`,
  `[1795338720.000000]	[DESTROY] ipv4     2 tcp      6 ${TO} packets=5 bytes=270 ` +
  `${BACK} packets=5 bytes=1268 [ASSURED] id=209`,
];

async function flowsOf(lines: readonly string[]): Promise<readonly Flow[]> {
  const flows: Flow[] = [];
  const find = (address: string, protocol: Protocol, port: number) =>
    address === "10.96.0.10" && protocol === "tcp" && port === 80 || address === "fd96::10"
      ? "default/web:http"
      : undefined;
  await readFlows(runnerThatPrints(lines), find, (flow) => flows.push(flow));
  return flows;
}

Deno.test("a connection to a service begins, closes and ends, with its bytes", async () => {
  const common = {
    service: "default/web:http",
    protocol: "tcp",
    client: "10.1.0.2:51604",
    frontend: "10.96.0.10:80",
    endpoint: "10.2.0.2:8080",
  } as const;
  assert.deepEqual(await flowsOf(TCP), [
    { event: "begin", atMs: 1795338711923.279, ...common, state: "SYN_SENT" },
    { event: "closed", atMs: 1795338711933.403, ...common, state: "TIME_WAIT", durationMs: 10 },
    {
      event: "end",
      atMs: 1795338720000,
      ...common,
      state: "TIME_WAIT",
      bytesSent: 270,
      bytesReceived: 1268,
      durationMs: 8077,
    },
  ]);
});

Deno.test("flows of UDP and IPv6 have no state, and flows that began earlier no duration", async () => {
  const [flow, ...others] = await flowsOf([
    "[1795338720.000000]	[DESTROY] ipv6     10 udp      17 src=fd01:0:0:0::2 dst=fd96::10 sport=5 dport=53 [UNREPLIED] " +
    "src=fd02::2 dst=fd01::2 sport=53 dport=5 id=7",
  ]);
  assert.deepEqual(others, []);
  assert.deepEqual([flow!.client, flow!.endpoint, flow!.state, flow!.durationMs, flow!.bytesSent], [
    ...["[fd01::2]:5", "[fd02::2]:53", "", undefined, undefined],
  ]);
});

Deno.test("connections to other destinations, untranslated ones and other lines are no flows", async () => {
  assert.deepEqual(
    await flowsOf([
      TCP[0]!.replaceAll("10.96.0.10", "10.96.0.11"),
      TCP[0]!.replace("src=10.2.0.2", "src=10.96.0.10").replace("sport=8080", "sport=80"),
      "conntrack v1.4.7 (conntrack-tools): 12 flow events have been shown.",
      "[1795338720.000000]	[NEW] ipv4     2 icmp     1 30 src=10.1.0.2 dst=10.96.0.10 type=8 code=0 id=1",
    ]),
    [],
  );
});

Deno.test("a flow is one line", async () => {
  assert.deepEqual((await flowsOf(TCP)).map(flowLine), [
    "09:11:51  begin   10.1.0.2:51604 → 10.96.0.10:80/tcp (default/web:http) → 10.2.0.2:8080  SYN_SENT",
    "09:11:51  closed  10.1.0.2:51604 → 10.96.0.10:80/tcp (default/web:http) → 10.2.0.2:8080  TIME_WAIT  10 ms",
    "09:12:00  end     10.1.0.2:51604 → 10.96.0.10:80/tcp (default/web:http) → 10.2.0.2:8080  TIME_WAIT  " +
    "270 bytes sent, 1,268 received  8.1 s",
  ]);
});

Deno.test("a connection whose number the kernel uses again has no start of its own until it begins", async () => {
  const again = await flowsOf([...TCP, TCP[2]!, TCP[3]!]);
  assert.deepEqual(again.map(({ event, durationMs }) => [event, durationMs]).slice(2), [
    ["end", 8077],
    ["closed", undefined],
    ["end", undefined],
  ]);
});

Deno.test("services are read again for an unknown frontend, but not more often than every two seconds", async () => {
  const clock = createFakeClock();
  const clusterIPs = ["10.0.0.1"];
  let reads = 0;
  const state = (family: Family) => {
    if (family === "IPv4") reads++;
    const set = clusterIPs.map((clusterIP, i) =>
      fakeServicePort(`default/s${i}`, { clusterIP, port: 80, nodePort: 30_000 + i })
    );
    return Promise.resolve({
      ...{ revision: 1, base: undefined, settings: undefined, deleted: [] },
      set: family === "IPv4" ? set : [],
    });
  };
  const { find, frontends } = await createServiceFinder({ state }, clock);
  const found = async (address: string) => {
    const name = find(address, "tcp", 80);
    await settled();
    return name;
  };
  assert.equal(await found("10.0.0.1"), "default/s0");
  clusterIPs.push("10.0.0.2");
  assert.equal(await found("10.0.0.2"), undefined);
  assert.equal(reads, 1, "it was read just now");
  clock.advance(2_001);
  assert.equal(await found("10.0.0.1"), "default/s0");
  assert.equal(reads, 1, "nothing was unknown");
  // Two at once are one reading.
  assert.equal(find("10.0.0.2", "tcp", 80), undefined);
  assert.equal(await found("10.0.0.2"), undefined);
  assert.deepEqual([await found("10.0.0.2"), reads], ["default/s1", 2]);
  assert.equal(await found("10.0.0.3"), undefined);
  assert.equal(reads, 2);
  assert.deepEqual(frontends("IPv4"), {
    addresses: ["10.0.0.1 . tcp . 80", "10.0.0.2 . tcp . 80"],
    nodePorts: ["tcp . 30000", "tcp . 30001"],
  });
  assert.deepEqual(frontends("IPv6"), { addresses: [], nodePorts: [] });
});
