/** Other service proxies on a node, detected by the responses at their ports. */
import assert from "node:assert/strict";
import { withHealthzServer } from "../../fakes/healthz_server.ts";
import { withMetricsServer } from "../../fakes/metrics_server.ts";
import { findNeighbours, type Neighbour } from "../../../observe/neighbours.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

/** The neighbours found at a port, ignoring whatever else runs on this machine. */
async function foundAt(port: number, clock = systemClock): Promise<readonly Neighbour[]> {
  const bindAddress = `127.0.0.1:${port}`;
  const found = await findNeighbours({ metricsBindAddress: bindAddress, healthzBindAddress: bindAddress }, clock);
  return found.filter(({ answersOn }) => answersOn.startsWith(`${bindAddress}/`));
}

/** Runs `test` with a server that answers each path with a status and a body. */
async function withServer(
  answers: Readonly<Record<string, readonly [number, string]>>,
  test: (port: number) => Promise<void>,
): Promise<void> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const [status, body] = answers[new URL(request.url).pathname] ?? [404, "404 page not found\n"];
    return new Response(body, { status });
  });
  try {
    await test(server.addr.port);
  } finally {
    await server.shutdown();
  }
}

const HEALTHY =
  `{"lastUpdated": "2026-01-01 00:00:00 +0000 UTC m=+1.2","currentTime": "2026-01-01 00:00:01 +0000 UTC"}`;

for (
  const [what, answers, expected] of [
    ["kube-proxy's metrics server", { "/proxyMode": [200, "iptables"] }, [["kube-proxy", "/proxyMode"]]],
    ["kube-proxy's health server", { "/healthz": [200, HEALTHY] }, [["like kube-proxy", "/healthz"]]],
    ["an unhealthy kube-proxy", { "/healthz": [503, HEALTHY] }, [["like kube-proxy", "/healthz"]]],
    ["another program's health", { "/healthz": [200, "ok"] }, []],
    ["another program's mode", { "/proxyMode": [200, "forward"] }, []],
    ["a page for everything", { "/proxyMode": [404, "iptables"] }, []],
  ] as const
) {
  Deno.test(`neighbour detected by ${what}: ${expected.map(([kind]) => kind).join() || "none"}`, () =>
    withServer(answers, async (port) => {
      const found = (await foundAt(port)).map(({ kind, answersOn }) => [kind, answersOn]);
      assert.deepEqual(found, expected.map(([kind, path]) => [kind, `127.0.0.1:${port}${path}`]));
    }));
}

for (
  const [what, path, withServer] of [
    ["health server", "/healthz", withHealthzServer],
    ["metrics server", "/proxyMode", withMetricsServer],
    [
      "metrics server in userspace mode",
      "/proxyMode",
      (test: (address: string) => Promise<void>) => withMetricsServer(test, undefined, { mode: "userspace" }),
    ],
  ] as const
) {
  Deno.test(`a Sluice's ${what} is distinguished from kube-proxy's despite compatible answers`, () =>
    withServer(async (address) => {
      const found = await foundAt(Number(address.split(":")[1]));
      assert.deepEqual(found, [{ kind: "Sluice", answersOn: address + path, port: Number(address.split(":")[1]) }]);
    }));
}

Deno.test("a closed port and one that never answers indicate no neighbour", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const accepted: Deno.Conn[] = [];
  const both = Promise.withResolvers<void>();
  const accepting = (async () => {
    for await (const connection of listener) if (accepted.push(connection) === 2) both.resolve();
  })();
  const clock = createFakeClock();
  const found = foundAt(port, clock);
  await both.promise;
  await settled();
  clock.advance(1000);
  assert.deepEqual(await found, []);
  listener.close();
  accepted.forEach((connection) => connection.close());
  await accepting;
  assert.deepEqual(await foundAt(port), []);
});

Deno.test("packets that a firewall drops on this node's own addresses delay the search by a second", async () => {
  const clock = createFakeClock();
  const addresses = { metricsBindAddress: undefined, healthzBindAddress: undefined };
  let tries = 0;
  const found = findNeighbours(addresses, clock, ({ signal }) => {
    tries++;
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  await clock.advanceSettled(1000);
  assert.deepEqual(await found, []);
  assert.equal(tries, 4);
});

Deno.test("a proxy is looked for on the default ports, and on those of this one at all addresses that reach them", async () => {
  const tried = async (bindAddress: string | undefined) => {
    const places = new Set<string>(), addresses = { metricsBindAddress: bindAddress, healthzBindAddress: undefined };
    await findNeighbours(addresses, createFakeClock(), ({ hostname, port }) => {
      places.add(`${hostname} ${port}`);
      return Promise.reject(new Error("closed"));
    });
    return [...places].sort();
  };
  const byDefault = ["127.0.0.1 10249", "127.0.0.1 10256", "::1 10249", "::1 10256"];
  const cases: readonly (readonly [bindAddress: string | undefined, more: readonly string[]])[] = [
    [undefined, []],
    ["127.0.0.1:10249", []],
    ["0.0.0.0:9000", ["127.0.0.1 9000", "::1 9000"]],
    ["[::]:9000", ["127.0.0.1 9000", "::1 9000"]],
    ["192.0.2.7:9000", ["127.0.0.1 9000", "192.0.2.7 9000", "::1 9000"]],
    ["[2001:db8::7]:9000", ["127.0.0.1 9000", "2001:db8::7 9000", "::1 9000"]],
  ];
  for (const [bindAddress, more] of cases) {
    assert.deepEqual(await tried(bindAddress), [...byDefault, ...more].sort(), bindAddress);
  }
});
