import assert from "node:assert/strict";
import { Socket } from "node:net";
import type { FamilyDelta, ServicePort } from "../../../core/model/mod.ts";
import { type Fields, silentLogger, splitHostPort, systemClock } from "../../../platform/mod.ts";
import { createRelay, defaultRelayLimits, type RelayOptions } from "../../../relay/mod.ts";
import { systemNetwork } from "../../../relay/network.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";
import { inTime } from "../../fakes/wait.ts";
import { answerOf, open, received, reservePort, startNamed, startServer } from "../../fakes/sockets.ts";

const OPTIONS: RelayOptions = {
  family: "IPv4",
  placement: { by: "redirect", udpAddress: "127.0.0.1" },
  limits: defaultRelayLimits(20_000),
  clock: systemClock,
  logger: silentLogger,
};

const state = (...set: ServicePort[]): FamilyDelta => (
  { revision: 1, base: undefined, settings: fakeSettings(), set, deleted: [] }
);

const change = (revision: number, set: ServicePort[], deleted: string[] = []): FamilyDelta => (
  { revision, base: revision - 1, settings: undefined, set, deleted }
);

Deno.test("a connection and a datagram reach an endpoint and are answered", async () => {
  await using server = await startServer((socket) => void socket.pipe(socket));
  const udp = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const udpEndpoint = `127.0.0.1:${(udp.addr as Deno.NetAddr).port}`;
  const relay = createRelay(OPTIONS);
  const { ports, problems } = await relay.apply(state(
    fakeServicePort("default/web", { clusterEndpoints: [server.endpoint] }),
    fakeServicePort("default/dns", { protocol: "udp", clusterEndpoints: [udpEndpoint] }),
  ));
  assert.deepEqual(problems, []);

  const client = open(`127.0.0.1:${ports.get("default/web|tcp")!.cluster}`);
  client.end("hello");
  assert.equal(await received(client), "hello");

  const resolver = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const to: Deno.NetAddr = { transport: "udp", hostname: "127.0.0.1", port: ports.get("default/dns|udp")!.cluster! };
  await resolver.send(new TextEncoder().encode("question"), to);
  const [question, from] = await udp.receive();
  await udp.send(question, from);
  const [echoed] = await resolver.receive();
  assert.equal(new TextDecoder().decode(echoed), "question");

  resolver.close();
  udp.close();
  await relay.stop();
  assert.deepEqual(relay.counts(), {
    ...{ connectionsOpen: 0, connectionsAccepted: 1, connectionsRefused: 0, connectionsFailed: 0, failovers: 0 },
    ...{ bytesToEndpoints: 5, bytesToClients: 5, udpFlows: 0, udpFlowsCreated: 1, udpFlowsEvicted: 0 },
    ...{ datagramsToEndpoints: 1, datagramsToClients: 1, datagramsDropped: 0, listeners: 0, listenersFailed: 0 },
  });
});

Deno.test("a whole state replaces everything, also in two parts", async () => {
  const relay = createRelay(OPTIONS);
  const [one, two, three] = ["default/one", "default/two", "default/three"].map((name) => fakeServicePort(name));
  const { ports } = await relay.apply(state(one!, two!));
  const portOfTwo = ports.get("default/two|tcp");
  await relay.apply(state(two!));
  assert.deepEqual([...ports], [["default/two|tcp", portOfTwo]]);
  await relay.apply({ ...state(three!), part: "head" });
  assert.deepEqual([...ports.keys()], ["default/two|tcp", "default/three|tcp"]);
  await relay.apply({ ...change(2, [one!]), part: "rest" });
  assert.deepEqual([...ports.keys()], ["default/three|tcp", "default/one|tcp"]);
  await relay.apply(change(3, [two!], ["default/one|tcp"]));
  assert.deepEqual([...ports.keys()], ["default/three|tcp", "default/two|tcp"]);
  assert.deepEqual(ports.get("default/two|tcp"), portOfTwo);
  await relay.stop();
  assert.equal(relay.counts().listeners, 0);
});

Deno.test("node ports on the loopback address are served without rules, and swap", async () => {
  await using one = await startNamed("one");
  await using two = await startNamed("two");
  const [first, second] = [reservePort(), reservePort()];
  const relay = createRelay({ ...OPTIONS, placement: { by: "localhost-node-ports", addresses: ["127.0.0.1", "::1"] } });
  const serve = (name: string, nodePort: number, endpoint: string) =>
    fakeServicePort(name, { nodePort, clusterEndpoints: [endpoint] });
  await relay.apply({
    ...state(serve("default/one", first, one.endpoint), serve("default/two", second, two.endpoint)),
    settings: fakeSettings({ countTraffic: true }),
  });
  assert.equal(await answerOf(`127.0.0.1:${first}`), "one");
  const swapped = [serve("default/one", second, one.endpoint), serve("default/two", first, two.endpoint)];
  assert.deepEqual((await relay.apply(change(2, swapped))).problems, []);
  assert.equal(await answerOf(`127.0.0.1:${first}`), "two");
  assert.equal(await answerOf(`127.0.0.1:${second}`), "one");
  assert.equal(relay.takeTraffic(), undefined, "the kernel counts their connections");
  await relay.stop();
});

Deno.test("a port that another program holds is a problem, and the other service ports are served", async () => {
  await using other = await startNamed("other program");
  await using web = await startNamed("web");
  const { port } = splitHostPort(other.endpoint);
  const free = reservePort();
  const relay = createRelay({ ...OPTIONS, placement: { by: "localhost-node-ports", addresses: ["127.0.0.1"] } });
  const { problems } = await relay.apply(state(
    fakeServicePort("default/taken", { nodePort: port, clusterEndpoints: [web.endpoint] }),
    fakeServicePort("default/web", { nodePort: free, clusterEndpoints: [web.endpoint] }),
  ));
  assert.deepEqual(problems.map(({ servicePort, message }) => [servicePort, message]), [
    ["default/taken", `cannot listen on 127.0.0.1:${port}: another program uses the port`],
  ]);
  assert.equal(await answerOf(`127.0.0.1:${free}`), "web");
  await relay.stop();
});

Deno.test("the state of 10,000 services is applied with one listener each, and a change opens none", async () => {
  let opened = 0;
  const listenTcp = () => Promise.resolve({ port: ++opened, close: () => {} });
  const relay = createRelay({ ...OPTIONS, network: { ...systemNetwork, listenTcp } });
  const all = Array.from({ length: 10_000 }, (_, i) => fakeServicePort(`default/web-${i}`));
  const { ports } = await relay.apply(state(...all));
  assert.deepEqual([opened, ports.size], [10_000, 10_000]);
  await relay.apply(change(2, [fakeServicePort("default/web-7", { clusterEndpoints: [] })]));
  assert.equal(opened, 10_000);
  await relay.stop();
});

Deno.test("once files are available again, listeners that stopped accepting accept at the same port", async () => {
  await using web = await startNamed("web");
  const clock = createFakeClock();
  const accepting: ((client: Socket) => void)[] = [];
  let failures = 1;
  const relay = createRelay({
    ...OPTIONS,
    clock,
    network: {
      ...systemNetwork,
      listenTcp(address, port, onConnection) {
        // The first listener is deaf after its first connection, as after a failed accept.
        const isDeaf = accepting.push(onConnection) === 1;
        let connections = 0;
        return systemNetwork.listenTcp(address, port, (client) => {
          if (!isDeaf || connections++ === 0) onConnection(client);
          else client.destroy();
        });
      },
      connectTcp: (endpoint) =>
        failures-- > 0 ? new Socket().destroy(new Error("connect EMFILE")) : systemNetwork.connectTcp(endpoint),
    },
  });
  const { ports } = await relay.apply(state(fakeServicePort("default/web", { clusterEndpoints: [web.endpoint] })));
  const port = ports.get("default/web|tcp")!.cluster;
  await assert.rejects(answerOf(`127.0.0.1:${port}`), /ECONNRESET/);
  assert.equal(await answerOf(`127.0.0.1:${port}`), "");
  clock.advance(1000);
  await relay.apply(change(2, []));
  assert.equal(accepting.length, 2);
  assert.equal(ports.get("default/web|tcp")!.cluster, port);
  assert.equal(await answerOf(`127.0.0.1:${port}`), "web");
  const stopped = relay.stop();
  await clock.advanceSettled(60_000);
  await stopped;
});

Deno.test("after each connection the relay looks whether files are left, since an accept that lacks one fails silently", async () => {
  const clock = createFakeClock(), accepting: ((client: Socket) => void)[] = [];
  let isOutOfFiles = true;
  const relay = createRelay({
    ...{ ...OPTIONS, clock },
    network: {
      ...systemNetwork,
      listenTcp(_, port, onConnection) {
        accepting.push(onConnection);
        return Promise.resolve({ port, close() {} });
      },
      connectTcp: () => new Socket(),
      bindUdp(address, port) {
        if (isOutOfFiles) throw new Error("Too many open files (os error 24)");
        return systemNetwork.bindUdp(address, port);
      },
    },
  });
  await relay.apply(state(fakeServicePort("default/web", { clusterEndpoints: ["10.0.0.1:80"] })));
  accepting[0]!(new Socket());
  clock.advance(1000);
  isOutOfFiles = false;
  clock.advance(1000);
  await relay.apply(change(2, []));
  assert.equal(accepting.length, 2);
  const stopped = relay.stop();
  await clock.advanceSettled(60_000);
  await stopped;
});

Deno.test("a change that fails does not keep later ones from being applied", async () => {
  let failures = 1;
  const close = () => {
    if (failures-- > 0) throw new Error("Bad resource ID");
  };
  const relay = createRelay({
    ...{ ...OPTIONS, placement: { by: "localhost-node-ports", addresses: ["127.0.0.1"] } },
    network: { ...systemNetwork, listenTcp: (_, port) => Promise.resolve({ port, close }) },
  });
  const serve = (name: string, nodePort: number) =>
    fakeServicePort(name, { nodePort, clusterEndpoints: ["10.0.0.1:80"] });
  await relay.apply(state(serve("default/web", 30_080)));
  await assert.rejects(relay.apply(change(2, [], ["default/web|tcp"])), /Bad resource ID/);
  const { ports } = await relay.apply(change(3, [serve("default/api", 30_081)]));
  assert.deepEqual([...ports.keys()], ["default/api|tcp"]);
  await relay.stop();
});

Deno.test("a listener that is renewed keeps its port of a range, also if its first choice is free by then", async () => {
  const clock = createFakeClock(), tried: number[] = [], accept: ((client: Socket) => void)[] = [];
  const relay = createRelay({
    ...{ ...OPTIONS, clock, ports: { first: 20_000, last: 20_001 } },
    network: {
      ...systemNetwork,
      listenTcp(_, port, onConnection) {
        if (tried.push(port) === 1) return Promise.reject(new Deno.errors.AddrInUse("Address already in use"));
        accept.push(onConnection);
        return Promise.resolve({ port, close() {} });
      },
      connectTcp: () => new Socket().destroy(new Error("connect EMFILE")),
    },
  });
  await relay.apply(state(fakeServicePort("default/web", { clusterEndpoints: ["10.0.0.1:80"] })));
  accept[0]!(new Socket());
  await settled();
  clock.advance(1000);
  await relay.apply(change(2, []));
  assert.equal(accept.length, 2);
  assert.deepEqual(tried.slice(2), [tried[1]]);
  const stopped = relay.stop();
  await clock.advanceSettled(60_000);
  await stopped;
});

Deno.test("with a port range, the relay listens on its ports alone, each protocol on its own", async () => {
  const port = reservePort();
  const relay = createRelay({ ...OPTIONS, ports: { first: port, last: port } });
  const { ports, problems } = await relay.apply(state(
    fakeServicePort("default/web"),
    fakeServicePort("default/dns", { protocol: "udp" }),
  ));
  assert.deepEqual([[...ports.values()], problems], [[{ cluster: port }, { cluster: port }], []]);
  const more = await relay.apply(change(2, [fakeServicePort("default/api")]));
  assert.deepEqual(more.problems.map(({ code, servicePort }) => [code, servicePort]), [["not-relayed", "default/api"]]);
  assert.match(more.problems[0]!.message, new RegExp(`no port of portRange ${port}-${port} is free`));
  await relay.stop();
});

Deno.test("with a port range, the listener of a list has its own first choice, whichever lists are served", async () => {
  const portOf = async (changes: Partial<ServicePort>) => {
    const listenTcp = (_: string, port: number) => Promise.resolve({ port, close() {} });
    const network = { ...systemNetwork, listenTcp };
    const relay = createRelay({ ...OPTIONS, network, ports: { first: 20_000, last: 29_999 } });
    const { ports } = await relay.apply(state(fakeServicePort("default/web", changes)));
    await relay.stop();
    return ports.get("default/web|tcp")!;
  };
  const [local, both] = [await portOf({ internal: "local" }), await portOf({ internal: "local", nodePort: 30080 })];
  assert.equal(local.local, both.local);
  assert.notEqual(both.cluster, both.local);
});

Deno.test("a stop logs what was left out of the log as repeated", async () => {
  const logged: Fields[] = [], accept: ((client: Socket) => void)[] = [];
  const relay = createRelay({
    ...{ ...OPTIONS, clock: createFakeClock(), limits: { ...OPTIONS.limits, connections: 0 } },
    logger: { ...silentLogger, warn: (_, fields = {}) => void logged.push(fields) },
    network: {
      ...systemNetwork,
      listenTcp(_, port, onConnection) {
        accept.push(onConnection);
        return Promise.resolve({ port, close() {} });
      },
    },
  });
  await relay.apply(state(fakeServicePort("default/web")));
  for (const _ of [1, 2, 3]) accept[0]!(new Socket());
  assert.deepEqual(logged, [{ limit: 0 }]);
  await relay.stop();
  assert.deepEqual(logged, [{ limit: 0 }, { limit: 0, times: 2 }]);
});

Deno.test("a stop waits for a change that is being applied, and closes the listeners that it opens", async () => {
  const opening = Promise.withResolvers<void>(), clock = createFakeClock(), open: number[] = [];
  const relay = createRelay({
    ...{ ...OPTIONS, clock },
    network: {
      ...systemNetwork,
      async listenTcp() {
        await opening.promise;
        open.push(20_000);
        return { port: 20_000, close: () => void open.pop() };
      },
    },
  });
  const applied = relay.apply(state(fakeServicePort("default/web", { clusterEndpoints: ["10.0.0.1:80"] })));
  const stopped = relay.stop();
  await settled();
  opening.resolve();
  await applied;
  await clock.advanceSettled(60_000);
  await stopped;
  assert.deepEqual(open, []);
});

Deno.test("a whole state leaves the listeners of service ports that it has open", async () => {
  let listened = 0;
  const network = {
    ...systemNetwork,
    listenTcp(...args: Parameters<typeof systemNetwork.listenTcp>) {
      listened++;
      return systemNetwork.listenTcp(...args);
    },
  };
  const placement = { by: "localhost-node-ports", addresses: ["127.0.0.1"] } as const;
  const relay = createRelay({ ...OPTIONS, network, placement });
  const web = fakeServicePort("default/web", { nodePort: reservePort(), clusterEndpoints: ["127.0.0.1:9"] });
  await relay.apply(state(web));
  assert.deepEqual((await relay.apply(state(web))).problems, []);
  assert.deepEqual([listened, relay.counts().listeners], [1, 1]);
  await relay.stop();
});

Deno.test("a relay without open connections stops at once", async () => {
  const clock = createFakeClock();
  const relay = createRelay({ ...OPTIONS, clock });
  await relay.apply(state(fakeServicePort("default/web")));
  await inTime("the stop", relay.stop());
  assert.equal(relay.counts().listeners, 0);
});
