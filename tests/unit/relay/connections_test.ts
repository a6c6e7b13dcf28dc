import assert from "node:assert/strict";
import { Socket } from "node:net";
import type { Family } from "../../../platform/mod.ts";
import { silentLogger } from "../../../platform/mod.ts";
import { createRelay, defaultRelayLimits, type Relay, type RelayLimits } from "../../../relay/mod.ts";
import { createConnections } from "../../../relay/connections.ts";
import { createCounters } from "../../../relay/counts.ts";
import { type RelayNetwork, systemNetwork } from "../../../relay/network.ts";
import { createChooser } from "../../../relay/target.ts";
import { createFakeClock, type FakeClock, settled } from "../../fakes/clock.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";
import { answerOf, closedEndpoint, event, open, received, startNamed, startServer } from "../../fakes/sockets.ts";
import { inTime } from "../../fakes/wait.ts";

const KEY = "default/web|tcp";

interface Lab extends AsyncDisposable {
  readonly relay: Relay;
  /** Where clients connect. */
  readonly front: string;
}

interface LabOptions {
  readonly limits?: Partial<RelayLimits>;
  readonly network?: Partial<RelayNetwork>;
  readonly clock?: FakeClock;
  readonly family?: Family;
  readonly affinitySeconds?: number;
  readonly countTraffic?: true;
}

/** A relay that serves one service port; the first endpoints of the list are chosen first. */
async function startLab(clusterEndpoints: readonly string[], options: LabOptions = {}): Promise<Lab> {
  const { limits, network, clock = createFakeClock(), family = "IPv4", affinitySeconds = 0, countTraffic } = options;
  const address = family === "IPv4" ? "127.0.0.1" : "[::1]";
  const relay = createRelay({
    ...{ family, clock, logger: silentLogger, placement: { by: "redirect", udpAddress: "127.0.0.1" } },
    limits: { ...defaultRelayLimits(20_000), ...limits },
    network: { ...systemNetwork, ...network },
    random: () => 0,
  });
  const servicePort = fakeServicePort("default/web", { clusterEndpoints, affinitySeconds });
  const { ports } = await relay.apply(
    { revision: 1, base: undefined, settings: fakeSettings({ countTraffic }), set: [servicePort], deleted: [] },
  );
  return {
    relay,
    front: `${address}:${ports.get(KEY)!.cluster}`,
    async [Symbol.asyncDispose]() {
      const stopped = relay.stop();
      await clock.advanceSettled(60_000);
      await stopped;
    },
  };
}

Deno.test("the next endpoint serves when one refuses, at once", async () => {
  await using two = await startNamed("two");
  await using lab = await startLab([closedEndpoint(), two.endpoint]);
  assert.equal(await answerOf(lab.front), "two");
  const { failovers, connectionsFailed } = lab.relay.counts();
  assert.deepEqual({ failovers, connectionsFailed }, { failovers: 1, connectionsFailed: 0 });
});

Deno.test("connections and their bytes are counted by endpoint, if traffic is counted", async () => {
  await using two = await startNamed("two");
  const refusing = closedEndpoint();
  await using counting = await startLab([refusing, two.endpoint], { countTraffic: true });
  assert.equal(counting.relay.takeTraffic()!.ports.length, 0);
  for (const _ of [1, 2]) assert.equal(await answerOf(counting.front), "two");
  const { ports, endpoints, counts } = counting.relay.takeTraffic()!;
  assert.deepEqual([ports, endpoints, [...counts]], [[KEY], [two.endpoint], [2, 0, 2 * "two".length]]);
  assert.deepEqual(counting.relay.takeTraffic()!.ports, []);
  await using echo = await startServer((socket) => void socket.pipe(socket));
  await using asking = await startLab([echo.endpoint], { countTraffic: true });
  const client = open(asking.front);
  client.end("question");
  assert.equal(await received(client), "question");
  assert.deepEqual([...asking.relay.takeTraffic()!.counts], [1, 0, 2 * "question".length], "in both directions");
  await using plain = await startLab([two.endpoint]);
  await answerOf(plain.front);
  assert.equal(plain.relay.takeTraffic(), undefined);
});

Deno.test("the next endpoint serves when one does not answer within the head start", async () => {
  await using two = await startNamed("two");
  const clock = createFakeClock();
  const silent = Promise.withResolvers<Socket>();
  const connectTcp = (endpoint: string) => {
    if (endpoint !== "192.0.2.1:80") return systemNetwork.connectTcp(endpoint);
    const socket = new Socket();
    silent.resolve(socket);
    return socket;
  };
  await using lab = await startLab(["192.0.2.1:80", two.endpoint], { clock, network: { connectTcp } });
  const client = open(lab.front);
  const answer = received(client);
  const first = await silent.promise;
  clock.advance(249);
  assert.equal(lab.relay.counts().failovers, 0);
  clock.advance(1);
  assert.equal(await answer, "two");
  assert.ok(first.destroyed, "the attempt that lost is closed");
});

/** A network whose endpoints are silent or refuse as the test says, and the endpoints that were dialed. */
function moodyNetwork() {
  const moods = new Map<string, "silent" | "refusing">(), dialed: string[] = [];
  let onSilent = () => {};
  const connectTcp = (endpoint: string) => {
    dialed.push(endpoint);
    const mood = moods.get(endpoint);
    if (mood === undefined) return systemNetwork.connectTcp(endpoint);
    const socket = new Socket();
    if (mood === "refusing") socket.destroy(new Error("ECONNREFUSED"));
    else onSilent();
    return socket;
  };
  const nextSilent = () => new Promise<void>((resolve) => onSilent = resolve);
  return { network: { connectTcp }, moods, dialed, nextSilent };
}

Deno.test("a silent endpoint costs one client its head start, and those of the next seconds nothing", async () => {
  await using two = await startNamed("two");
  const clock = createFakeClock(), silent = "192.0.2.1:80";
  const { network, moods, dialed, nextSilent } = moodyNetwork();
  await using lab = await startLab([silent, two.endpoint], { clock, network });
  for (const round of [1, 2]) {
    moods.set(silent, "silent");
    const isDialed = nextSilent(), answer = answerOf(lab.front);
    await isDialed;
    clock.advance(250);
    assert.equal(await answer, "two");
    moods.set(silent, "refusing");
    for (const _ of [1, 2, 3]) assert.equal(await answerOf(lab.front), "two");
    assert.deepEqual(dialed.splice(0), [silent, ...Array(4).fill(two.endpoint)], `round ${round}`);
    clock.advance(5000);
  }
});

Deno.test("an endpoint that accepts again is tried like the others at once", async () => {
  await using one = await startNamed("one");
  await using two = await startNamed("two");
  const { network, moods, dialed } = moodyNetwork();
  await using lab = await startLab([one.endpoint, two.endpoint], { network });
  moods.set(one.endpoint, "refusing").set(two.endpoint, "refusing");
  await assert.rejects(answerOf(lab.front), /ECONNRESET/);
  moods.delete(two.endpoint);
  for (const _ of [1, 2]) assert.equal(await answerOf(lab.front), "two");
  const [first, second] = [one.endpoint, two.endpoint];
  assert.deepEqual(dialed, [first, second, first, second, second]);
});

Deno.test("a client is reset when no endpoint accepts its connection, and when there is none", async () => {
  for (const endpoints of [[closedEndpoint(), closedEndpoint()], []]) {
    await using lab = await startLab(endpoints);
    await assert.rejects(answerOf(lab.front), /ECONNRESET/);
    assert.equal(lab.relay.counts().connectionsFailed, 1);
  }
});

Deno.test("a client that has ended its side still receives the answer", async () => {
  // Answers only once it has read everything.
  await using server = await startServer((socket) => {
    let text = "";
    socket.on("data", (chunk: Uint8Array) => text += new TextDecoder().decode(chunk));
    socket.on("end", () => socket.end(`got ${text}`));
  });
  await using lab = await startLab([server.endpoint]);
  const client = open(lab.front);
  client.end("question");
  assert.equal(await received(client), "got question");
});

Deno.test("an endpoint that has ended its side still receives what the client sends", async () => {
  await using server = await startServer();
  await using lab = await startLab([server.endpoint]);
  const client = open(lab.front);
  const endpoint = await server.accepted();
  endpoint.end("greeting");
  assert.equal(await received(client), "greeting");
  client.end("late");
  assert.equal(await received(endpoint), "late");
});

Deno.test("a reset is passed on, in both directions", async () => {
  await using server = await startServer();
  await using lab = await startLab([server.endpoint]);
  const one = open(lab.front);
  const endpointOfOne = await server.accepted();
  one.write("half a");
  await event(endpointOfOne, "data");
  const closed = event(endpointOfOne, "error");
  one.resetAndDestroy();
  assert.match(String(await closed), /ECONNRESET/);

  const two = open(lab.front);
  const endpointOfTwo = await server.accepted();
  endpointOfTwo.write("half an answer");
  await event(two, "data");
  endpointOfTwo.resetAndDestroy();
  await assert.rejects(received(two), /ECONNRESET/);
});

Deno.test("a receiver that does not read stops the sender, and the relay holds little for it", async () => {
  const bytes = 64 << 20;
  await using server = await startServer((socket) => void socket.pause());
  const inside = { client: new Socket(), server: new Socket() };
  let heldBytes = 0;
  const stuck = Promise.withResolvers<void>();
  await using lab = await startLab([server.endpoint], {
    network: {
      listenTcp: (address, port, onConnection) =>
        systemNetwork.listenTcp(address, port, (client) => {
          inside.client = client;
          onConnection(client);
        }),
      connectTcp(endpoint) {
        inside.server = systemNetwork.connectTcp(endpoint);
        inside.server.once("connect", () => {
          inside.client.on("data", () => heldBytes = Math.max(heldBytes, inside.server.writableLength));
          // Without backpressure, the relay would take everything before the endpoint reads.
          inside.client.once("pause", stuck.resolve).once("end", stuck.resolve);
        });
        return inside.server;
      },
    },
  });
  const client = open(lab.front);
  client.end(new Uint8Array(bytes));
  const endpoint = await server.accepted();
  await stuck.promise;
  let received = 0;
  endpoint.on("data", (data: Uint8Array) => received += data.length).resume();
  await event(endpoint, "end");
  assert.equal(received, bytes);
  assert.ok(heldBytes <= 256 << 10, `the relay held ${heldBytes} bytes`);
});

Deno.test("above the limit of connections a client is reset at once, and the others stay", async () => {
  await using server = await startServer();
  await using lab = await startLab([server.endpoint], { limits: { connections: 1 } });
  const first = open(lab.front);
  const endpoint = await server.accepted();
  await assert.rejects(answerOf(lab.front), /ECONNRESET/);
  assert.equal(lab.relay.counts().connectionsRefused, 1);

  first.end("still here");
  assert.equal(await received(endpoint), "still here");
  endpoint.end();
  await event(first.resume(), "close");
  const again = open(lab.front);
  (await server.accepted()).end("welcome");
  assert.equal(await received(again), "welcome");
});

Deno.test("session affinity keeps a client at its endpoint until its time has passed", async () => {
  await using one = await startNamed("one");
  await using two = await startNamed("two");
  const clock = createFakeClock();
  await using lab = await startLab([one.endpoint], { clock, affinitySeconds: 60 });
  assert.equal(await answerOf(lab.front), "one");
  const change = (clusterEndpoints: readonly string[], revision: number) =>
    lab.relay.apply({
      ...{ revision, base: revision - 1, settings: undefined, deleted: [] },
      set: [fakeServicePort("default/web", { clusterEndpoints, affinitySeconds: 60 })],
    });
  await change([two.endpoint, one.endpoint], 2);
  assert.equal(await answerOf(lab.front), "one");
  clock.advance(59_000);
  assert.equal(await answerOf(lab.front), "one");
  clock.advance(60_000);
  assert.equal(await answerOf(lab.front), "two");
  await change([one.endpoint], 3);
  assert.equal(await answerOf(lab.front), "one");
});

Deno.test("a change of endpoints leaves open connections alone", async () => {
  await using one = await startServer();
  await using two = await startNamed("two");
  await using lab = await startLab([one.endpoint]);
  const client = open(lab.front);
  const endpoint = await one.accepted();
  await lab.relay.apply({
    ...{ revision: 2, base: 1, settings: undefined, deleted: [] },
    set: [fakeServicePort("default/web", { clusterEndpoints: [two.endpoint] })],
  });
  assert.equal(await answerOf(lab.front), "two");
  client.end("old");
  assert.equal(await received(endpoint), "old");
});

Deno.test("a deleted service port accepts connections until its listener has drained, and open ones go on", async () => {
  await using server = await startServer();
  const clock = createFakeClock();
  await using lab = await startLab([server.endpoint], { clock });
  const early = open(lab.front);
  const endpointOfEarly = await server.accepted();
  const { ports } = await lab.relay.apply({ revision: 2, base: 1, settings: undefined, set: [], deleted: [KEY] });
  assert.deepEqual([...ports], []);
  const late = open(lab.front);
  const endpointOfLate = await server.accepted();
  clock.advance(5000);
  assert.equal(lab.relay.counts().listeners, 0);
  await assert.rejects(answerOf(lab.front), /ECONNREFUSED/);
  for (const [client, endpoint] of [[early, endpointOfEarly], [late, endpointOfLate]] as const) {
    client.end("still here");
    assert.equal(await received(endpoint), "still here");
  }
});

Deno.test("a stop waits for open connections, then resets them", async () => {
  await using server = await startServer();
  for (const isPatient of [true, false]) {
    const clock = createFakeClock();
    const lab = await startLab([server.endpoint], { clock });
    const client = open(lab.front);
    const endpoint = await server.accepted();
    const stopped = lab.relay.stop();
    if (isPatient) {
      client.end("bye");
      assert.equal(await received(endpoint), "bye");
      endpoint.end();
      await inTime("the end of the relay", Promise.all([stopped, received(client)]));
    } else {
      const reset = assert.rejects(received(client), /ECONNRESET/);
      await clock.advanceSettled(5000);
      await stopped;
      await reset;
    }
    assert.deepEqual(clock.pending(), []);
  }
});

/** Connections whose sockets are the test's, and the sockets to endpoints. */
function connectionsOfTest(limits: Partial<RelayLimits> = {}) {
  const clock = createFakeClock(), counters = createCounters(), attempts: Socket[] = [];
  const network = {
    ...systemNetwork,
    connectTcp() {
      attempts.push(new Socket());
      return attempts.at(-1)!;
    },
  };
  const connections = createConnections({
    ...{ family: "IPv4", clock, logger: silentLogger, counters, network },
    limits: { ...defaultRelayLimits(20_000), ...limits },
    chooser: createChooser({ clock }),
    traffic: { begin: () => undefined },
    files: { note() {}, touch() {} },
  });
  const client = new Socket();
  client.resetAndDestroy = () => client.destroy();
  const servicePort = fakeServicePort("default/web", { clusterEndpoints: ["192.0.2.1:80", "192.0.2.2:80"] });
  connections.accept(client, { key: KEY, list: "cluster", servicePort });
  return { connections, client, attempts, counters, clock };
}

Deno.test("no endpoint is tried for a client whose connection has failed", () => {
  const { client, attempts, clock } = connectionsOfTest();
  client.emit("error", new Error("ECONNRESET"));
  assert.deepEqual(attempts.map(({ destroyed }) => destroyed), [true]);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a client that is refused may have failed already", () => {
  const { client, counters } = connectionsOfTest({ connections: 0 });
  client.emit("error", new Error("ECONNRESET"));
  assert.equal(counters.connectionsRefused, 1);
});

Deno.test("a connection is open until both of its sockets are closed", async () => {
  for (const first of ["client", "endpoint"]) {
    const { connections, client, attempts: [endpoint], counters } = connectionsOfTest();
    endpoint!.emit("connect");
    let isDrained = false;
    const drained = connections.drained().then(() => isDrained = true);
    const [one, other] = first === "client" ? [client, endpoint!] : [endpoint!, client];
    one.emit("close");
    await settled();
    assert.deepEqual([isDrained, counters.connectionsOpen], [false, 1], first);
    other.emit("close");
    await inTime("the end of both sockets", drained);
    assert.equal(counters.connectionsOpen, 0);
  }
});

Deno.test("IPv6 clients reach IPv6 endpoints", { ignore: !await hasIPv6() }, async () => {
  await using server = await startNamed("six", "::1");
  await using lab = await startLab([server.endpoint], { family: "IPv6" });
  assert.equal(await answerOf(lab.front), "six");
});

Deno.test("an IPv4 client of an IPv6 listener is reset", { ignore: !await hasIPv6() }, async () => {
  await using server = await startNamed("six", "::1");
  await using lab = await startLab([server.endpoint], { family: "IPv6" });
  await assert.rejects(answerOf(lab.front.replace("[::1]", "127.0.0.1")), /ECONNRESET/);
});

async function hasIPv6(): Promise<boolean> {
  try {
    await using _server = await startServer(() => {}, "::1");
    return true;
  } catch {
    return false;
  }
}
