/**
 * Node ports at loopback addresses, from the tests of kube-proxy's forwarder (pkg/proxy/localnodeportproxy, new in 1.37). Its cases of
 * session affinity, spreading, failed endpoints and ports in use are in connections_test.ts, target_test.ts and relay_test.ts.
 */
import assert from "node:assert/strict";
import type { ServicePort } from "../../../core/model/mod.ts";
import { silentLogger, splitHostPort, systemClock } from "../../../platform/mod.ts";
import { createRelay, defaultRelayLimits } from "../../../relay/mod.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";
import { answerOf, closedEndpoint, open, received, startNamed, startServer } from "../../fakes/sockets.ts";

/** A relay of node ports at 127.0.0.1 on a free port. */
function startLab() {
  const relay = createRelay({
    ...{ family: "IPv4", placement: { by: "localhost-node-ports", addresses: ["127.0.0.1", "::1"] } },
    ...{ limits: defaultRelayLimits(20_000), clock: systemClock, logger: silentLogger },
  });
  const front = closedEndpoint();
  const { port: nodePort } = splitHostPort(front);
  let revision = 0;
  const serve = async (...set: Partial<ServicePort>[]) => {
    const { problems } = await relay.apply({
      ...{ revision: ++revision, base: undefined, settings: fakeSettings(), deleted: [] },
      set: set.map((changes) => fakeServicePort("default/web:http", { nodePort, ...changes })),
    });
    assert.deepEqual(problems, []);
  };
  return { front, serve, listeners: () => relay.counts().listeners, [Symbol.asyncDispose]: () => relay.stop() };
}

const NO_ENDPOINTS = { clusterEndpoints: [], internal: "reject", external: "reject" } as const;

Deno.test("kube-proxy's node ports at localhost: a port listens while its service has endpoints, and serves the present ones", async () => {
  await using one = await startNamed("one");
  await using two = await startNamed("two");
  await using lab = startLab();
  const isRefused = async () => {
    assert.equal(lab.listeners(), 0);
    await assert.rejects(answerOf(lab.front), /ECONNREFUSED/);
  };
  await lab.serve(NO_ENDPOINTS);
  await isRefused();
  for (const [name, { endpoint }] of [["one", one], ["two", two]] as const) {
    await lab.serve({ clusterEndpoints: [endpoint] });
    assert.deepEqual([lab.listeners(), await answerOf(lab.front)], [1, name]);
  }
  await lab.serve(NO_ENDPOINTS);
  await isRefused();
  await lab.serve({ clusterEndpoints: [one.endpoint] });
  assert.equal(await answerOf(lab.front), "one");
  await lab.serve();
  await isRefused();
});

Deno.test("kube-proxy's node ports at localhost: UDP is served too, and policy Local does not limit the endpoints of the node itself", async () => {
  await using elsewhere = await startNamed("elsewhere");
  await using lab = startLab();
  // kube-proxy forwards TCP alone, and only to local endpoints: none here. Through its rules, the node reaches all of them.
  await lab.serve({ external: "drop", clusterEndpoints: [elsewhere.endpoint], localEndpoints: [] }, {
    protocol: "udp",
  });
  assert.deepEqual([lab.listeners(), await answerOf(lab.front)], [2, "elsewhere"]);
});

Deno.test("kube-proxy's node ports at localhost: open connections outlast the endpoints and the service", async () => {
  await using server = await startServer();
  await using lab = startLab();
  await lab.serve({ clusterEndpoints: [server.endpoint] });
  const client = open(lab.front);
  const endpoint = await server.accepted();
  await lab.serve(NO_ENDPOINTS);
  await lab.serve();
  // kube-proxy closes them with the listener; those through rules go on in both.
  client.end("still here");
  assert.equal(await received(endpoint), "still here");
  endpoint.end("and here");
  assert.equal(await received(client), "and here");
});
