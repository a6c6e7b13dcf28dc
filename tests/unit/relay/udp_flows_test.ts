import assert from "node:assert/strict";
import { type Family, silentLogger } from "../../../platform/mod.ts";
import { createChooser, type Target } from "../../../relay/target.ts";
import { createCounters, createRelayTraffic } from "../../../relay/counts.ts";
import { defaultRelayLimits, type RelayLimits, type RelayNetwork } from "../../../relay/mod.ts";
import { systemNetwork } from "../../../relay/network.ts";
import { createUdpFlows } from "../../../relay/udp_flows.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";
import { inTime, until } from "../../fakes/wait.ts";

/** A UDP socket of a test, with its address. */
interface Peer extends Disposable {
  readonly address: Deno.NetAddr;
  readonly endpoint: string;
  send(text: string, to: Deno.NetAddr): Promise<number>;
  receive(): Promise<{ readonly text: string; readonly from: Deno.NetAddr }>;
}

function openPeer(hostname = "127.0.0.1"): Peer {
  const socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
  const address = socket.addr as Deno.NetAddr;
  return {
    address,
    endpoint: hostname.includes(":") ? `[${hostname}]:${address.port}` : `${hostname}:${address.port}`,
    send: (text, to) => socket.send(new TextEncoder().encode(text), to),
    async receive() {
      const [data, from] = await inTime(`a datagram to ${address.port}`, socket.receive(new Uint8Array(65_536)));
      return { text: new TextDecoder().decode(data), from: from as Deno.NetAddr };
    },
    [Symbol.dispose]: () => socket.close(),
  };
}

interface LabOptions {
  readonly limits?: Partial<RelayLimits>;
  readonly network?: Partial<RelayNetwork>;
  readonly family?: Family;
  /** Where it listens; at the loopback address of the family by default. */
  readonly hostname?: string;
}

/** A listener for one service port; the first endpoint of the list is chosen first. */
function startLab(clusterEndpoints: readonly string[], options: LabOptions = {}) {
  const { limits, network, family = "IPv4", hostname = family === "IPv4" ? "127.0.0.1" : "::1" } = options;
  const clock = createFakeClock();
  const counters = createCounters(), traffic = createRelayTraffic(), noted: unknown[] = [];
  const target: Target = {
    ...{ key: "default/dns|udp", list: "cluster" },
    servicePort: fakeServicePort("default/dns", { protocol: "udp", clusterEndpoints }),
  };
  const flows = createUdpFlows({
    ...{
      family,
      clock,
      counters,
      traffic,
      logger: silentLogger,
      files: { note: (error) => void noted.push(error), touch() {} },
    },
    network: { ...systemNetwork, ...network },
    chooser: createChooser({ clock, random: () => 0 }),
    limits: { ...defaultRelayLimits(20_000), ...limits },
  });
  const listen = () => flows.listen(hostname, 0, target);
  const { port, close } = listen();
  const front: Deno.NetAddr = { transport: "udp", hostname, port };
  const assign = (changes: Parameters<typeof fakeServicePort>[1]) =>
    target.servicePort = fakeServicePort("default/dns", { protocol: "udp", ...changes });
  return {
    ...{ clock, counters, traffic, noted, front, assign, listen, close },
    async [Symbol.asyncDispose]() {
      close();
      // The receiving loops end with their sockets.
      await settled();
      assert.deepEqual(clock.pending(), []);
    },
  };
}

/** Sends a question through the relay, which the endpoint answers; returns the answer and who asked the endpoint. */
async function ask(client: Peer, front: Deno.NetAddr, endpoint: Peer, text = "question") {
  await client.send(text, front);
  const question = await endpoint.receive();
  await endpoint.send(`re: ${question.text}`, question.from);
  const answer = await client.receive();
  assert.equal(answer.from.port, front.port, "answers come from the address that was asked");
  return { answer: answer.text, flow: question.from.port };
}

Deno.test("a client keeps its flow, and two clients have two", async () => {
  using endpoint = openPeer();
  using one = openPeer();
  using two = openPeer();
  await using lab = startLab([endpoint.endpoint]);
  const first = await ask(one, lab.front, endpoint, "a");
  assert.equal(first.answer, "re: a");
  assert.equal((await ask(one, lab.front, endpoint, "b")).flow, first.flow);
  assert.notEqual((await ask(two, lab.front, endpoint, "c")).flow, first.flow);
  assert.equal(lab.counters.udpFlows, 2);
});

Deno.test("a flow is a connection, and its datagrams are counted by their payload", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  await using lab = startLab([endpoint.endpoint]);
  lab.traffic.follow(true);
  await ask(client, lab.front, endpoint, "a");
  await ask(client, lab.front, endpoint, "bc");
  await settled();
  const { ports, endpoints, counts } = lab.traffic.take()!;
  assert.deepEqual([ports, endpoints], [["default/dns|udp"], [endpoint.endpoint]]);
  assert.deepEqual([...counts], [1, 0, "a".length + "re: a".length + "bc".length + "re: bc".length]);
});

Deno.test("empty datagrams and the largest ones are carried whole", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  await using lab = startLab([endpoint.endpoint]);
  for (const bytes of [0, 1, 1500, 65_000]) {
    const text = "x".repeat(bytes);
    assert.equal((await ask(client, lab.front, endpoint, text)).answer, `re: ${text}`);
  }
});

Deno.test("only the endpoint of a flow can answer", async () => {
  using endpoint = openPeer();
  using stranger = openPeer();
  using client = openPeer();
  await using lab = startLab([endpoint.endpoint]);
  await client.send("question", lab.front);
  const { from } = await endpoint.receive();
  const flow: Deno.NetAddr = { transport: "udp", hostname: "127.0.0.1", port: from.port };
  await stranger.send("forged", flow);
  await endpoint.send("answer", flow);
  assert.equal((await client.receive()).text, "answer");
});

/** Sends a datagram through the relay, and lets the endpoint take it. */
async function say(client: Peer, front: Deno.NetAddr, endpoint: Peer) {
  await client.send("question", front);
  return (await endpoint.receive()).from;
}

Deno.test("an idle flow ends soon after the only answer to one question, later otherwise, and a stream lasts longest", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  const limits = { udpAnsweredIdleMs: 1000, udpIdleMs: 10_000, udpStreamIdleMs: 120_000 };
  await using lab = startLab([endpoint.endpoint], { limits });
  const lastsFor = (ms: number) => {
    lab.clock.advance(ms - 1000);
    assert.equal(lab.counters.udpFlows, 1, `before ${ms} ms`);
    lab.clock.advance(1000);
    assert.equal(lab.counters.udpFlows, 0, `after ${ms} ms`);
  };
  await ask(client, lab.front, endpoint);
  lastsFor(1000);

  await say(client, lab.front, endpoint);
  lastsFor(10_000);

  await ask(client, lab.front, endpoint);
  await ask(client, lab.front, endpoint);
  lastsFor(10_000);

  const from = await say(client, lab.front, endpoint);
  for (const answer of ["first", "second"]) {
    await endpoint.send(answer, from);
    assert.equal((await client.receive()).text, answer);
  }
  lastsFor(10_000);

  const { flow } = await ask(client, lab.front, endpoint);
  await ask(client, lab.front, endpoint);
  lab.clock.advance(2000);
  await ask(client, lab.front, endpoint);
  lab.clock.advance(119_000);
  assert.equal((await ask(client, lab.front, endpoint)).flow, flow);
  lastsFor(120_000);
});

Deno.test("a full table closes the flow that is idle for longest", async () => {
  using endpoint = openPeer();
  using one = openPeer();
  using two = openPeer();
  using three = openPeer();
  await using lab = startLab([endpoint.endpoint], { limits: { udpFlows: 2 } });
  const flowOfOne = (await ask(one, lab.front, endpoint)).flow;
  const flowOfTwo = (await ask(two, lab.front, endpoint)).flow;
  lab.clock.advance(600);
  await ask(one, lab.front, endpoint);
  await ask(three, lab.front, endpoint);
  assert.equal(lab.counters.udpFlowsEvicted, 1);
  assert.equal((await ask(one, lab.front, endpoint)).flow, flowOfOne);
  assert.notEqual((await ask(two, lab.front, endpoint)).flow, flowOfTwo);
});

Deno.test("a client that repeats itself without an answer gets another endpoint, if endpoints answer at all", async () => {
  using silent = openPeer();
  using other = openPeer();
  using client = openPeer();
  await using lab = startLab([silent.endpoint, other.endpoint]);
  const repeat = async () => {
    await client.send("question", lab.front);
    return await silent.receive();
  };
  // Nobody has ever answered here: a one-way protocol keeps its endpoint.
  await repeat();
  lab.clock.advance(1000);
  await repeat();

  using before = openPeer();
  await ask(before, lab.front, silent);
  lab.clock.advance(1000);
  const { answer } = await ask(client, lab.front, other);
  assert.equal(answer, "re: question");
  assert.equal(lab.counters.failovers, 1);
  lab.clock.advance(1000);
  await ask(client, lab.front, other);
  assert.equal(lab.counters.failovers, 1);

  // A second is enough, and no less.
  using late = openPeer();
  await say(late, lab.front, silent);
  lab.clock.advance(999);
  await say(late, lab.front, silent);
  lab.clock.advance(1);
  await ask(late, lab.front, other);
});

Deno.test("each endpoint has a second to answer before a client that repeats itself gets the next one", async () => {
  using silent = openPeer();
  using other = openPeer();
  using answered = openPeer();
  using client = openPeer();
  await using lab = startLab([silent.endpoint, other.endpoint]);
  await ask(answered, lab.front, silent);
  await say(client, lab.front, silent);
  lab.clock.advance(1000);
  await say(client, lab.front, other);
  lab.clock.advance(999);
  await say(client, lab.front, other);
  lab.clock.advance(1);
  await say(client, lab.front, silent);
});

Deno.test("a client of a silent endpoint that is the only one stays there, until there is another", async () => {
  using silent = openPeer();
  using other = openPeer();
  using answered = openPeer();
  using client = openPeer();
  await using lab = startLab([silent.endpoint]);
  await ask(answered, lab.front, silent);
  const { port } = await say(client, lab.front, silent);
  lab.clock.advance(1000);
  assert.equal((await say(client, lab.front, silent)).port, port);
  assert.equal(lab.counters.failovers, 0);
  lab.assign({ clusterEndpoints: [silent.endpoint, other.endpoint] });
  await ask(client, lab.front, other);
  assert.equal(lab.counters.failovers, 1);
});

Deno.test("a flow leaves an endpoint that is gone, and stays at one that lingers", async () => {
  using one = openPeer();
  using two = openPeer();
  using client = openPeer();
  await using lab = startLab([one.endpoint]);
  await ask(client, lab.front, one);
  lab.assign({ clusterEndpoints: [two.endpoint], lingeringEndpoints: [one.endpoint] });
  await ask(client, lab.front, one);
  lab.assign({ clusterEndpoints: [two.endpoint] });
  await ask(client, lab.front, two);
  lab.assign({ clusterEndpoints: [] });
  await client.send("nobody is there", lab.front);
  await until(() => lab.counters.datagramsDropped > 0);
  lab.assign({ clusterEndpoints: [one.endpoint] });
  await ask(client, lab.front, one, "again");
});

Deno.test("a socket that cannot be opened costs its datagram alone", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  let failures = 1;
  const bindUdp = (address: string, port: number) => {
    // The listener is bound to loopback, flows to the wildcard address.
    if (address === "0.0.0.0" && failures-- > 0) throw new Error("Too many open files (os error 24)");
    return systemNetwork.bindUdp(address, port);
  };
  await using lab = startLab([endpoint.endpoint], { network: { bindUdp } });
  await client.send("lost", lab.front);
  assert.equal((await ask(client, lab.front, endpoint, "kept")).answer, "re: kept");
  assert.equal(lab.counters.datagramsDropped, 1);
  assert.match(String(lab.noted), /Too many open files/);
});

/** A network whose sockets fail to receive when the test says so; listeners are at loopback, flows at the wildcard address. */
function deafNetwork() {
  const failing = { door: 0, flow: 0 }, buffers = new Set<Uint8Array>();
  let receiving = 0;
  const bindUdp = (address: string, port: number) => {
    const socket = systemNetwork.bindUdp(address, port), receive = socket.receive.bind(socket);
    const kind = address === "0.0.0.0" ? "flow" : "door";
    socket.receive = (buffer) => {
      buffers.add(buffer!);
      if (failing[kind]-- > 0) return Promise.reject(new Error("No buffer space available"));
      receiving++;
      return receive(buffer).finally(() => receiving--);
    };
    return socket;
  };
  return { network: { bindUdp }, failing, buffers, receiving: () => receiving };
}

Deno.test("a listener that cannot receive tries again after a second", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  const { network, failing } = deafNetwork();
  failing.door = 1;
  await using lab = startLab([endpoint.endpoint], { network });
  await settled();
  assert.deepEqual([failing.door, lab.clock.pending()], [0, [1000]]);
  lab.clock.advance(1000);
  await ask(client, lab.front, endpoint);
});

Deno.test("a flow whose socket fails ends, and its client gets another one", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  const { network, failing } = deafNetwork();
  failing.flow = 1;
  await using lab = startLab([endpoint.endpoint], { network });
  await say(client, lab.front, endpoint);
  await until(() => lab.counters.udpFlows === 0);
  await ask(client, lab.front, endpoint);
  assert.deepEqual([lab.counters.udpFlows, lab.counters.udpFlowsCreated], [1, 2]);
});

Deno.test("listeners and flows that have ended leave their buffers to others", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  const { network, buffers, receiving } = deafNetwork();
  await using lab = startLab([endpoint.endpoint], { network });
  for (const _ of [1, 2, 3]) {
    const { port, close } = lab.listen();
    await ask(client, { ...lab.front, port }, endpoint);
    close();
    // The lab's own listener.
    await until(() => receiving() === 1);
  }
  // The lab's listener, another one, and a flow.
  assert.equal(buffers.size, 3);
});

Deno.test("each datagram is counted once: to its receiver, or dropped", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  const failing = { question: false, answer: false };
  const bindUdp = (address: string, port: number) => {
    const socket = systemNetwork.bindUdp(address, port), send = socket.send.bind(socket);
    const kind = address === "0.0.0.0" ? "question" : "answer";
    socket.send = (...given) => failing[kind] ? Promise.reject(new Error("Operation not permitted")) : send(...given);
    return socket;
  };
  await using lab = startLab([endpoint.endpoint], { network: { bindUdp } });
  const counted = () => {
    const { datagramsToEndpoints, datagramsToClients, datagramsDropped } = lab.counters;
    return [datagramsToEndpoints, datagramsToClients, datagramsDropped];
  };
  await ask(client, lab.front, endpoint);
  await until(() => lab.counters.datagramsToClients === 1);
  assert.deepEqual(counted(), [1, 1, 0]);

  failing.answer = true;
  const from = await say(client, lab.front, endpoint);
  await endpoint.send("lost", from);
  await until(() => lab.counters.datagramsDropped === 1);
  assert.deepEqual(counted(), [2, 1, 1]);

  failing.answer = false;
  failing.question = true;
  await client.send("lost", lab.front);
  await until(() => lab.counters.datagramsDropped === 2);
  failing.question = false;
  await ask(client, lab.front, endpoint);
  await until(() => lab.counters.datagramsToClients === 2);
  assert.deepEqual(counted(), [3, 2, 2]);
});

Deno.test("a closed listener closes its flows", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  await using lab = startLab([endpoint.endpoint]);
  await ask(client, lab.front, endpoint);
  lab.close();
  assert.equal(lab.counters.udpFlows, 0);
});

Deno.test("a flow that is opened after the last one was closed ends once it is idle", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  await using lab = startLab([endpoint.endpoint], { limits: { udpAnsweredIdleMs: 1000 } });
  const { port, close } = lab.listen();
  await ask(client, { ...lab.front, port }, endpoint);
  close();
  await ask(client, lab.front, endpoint);
  lab.clock.advance(1000);
  assert.equal(lab.counters.udpFlows, 0);
});

Deno.test("an answer that arrives while its flow is closed does not open the flow again", async () => {
  using endpoint = openPeer();
  using client = openPeer();
  const answer = Promise.withResolvers<[Uint8Array<ArrayBuffer>, Deno.Addr]>();
  let held = 1;
  const bindUdp = (address: string, port: number) => {
    const socket = systemNetwork.bindUdp(address, port);
    if (address === "0.0.0.0" && held-- > 0) socket.receive = () => answer.promise;
    return socket;
  };
  await using lab = startLab([endpoint.endpoint], { network: { bindUdp }, limits: { udpAnsweredIdleMs: 1000 } });
  const { port, close } = lab.listen();
  await say(client, { ...lab.front, port }, endpoint);
  answer.resolve([new Uint8Array(1), endpoint.address]);
  close();
  await ask(client, lab.front, endpoint);
  lab.clock.advance(1000);
  assert.equal(lab.counters.udpFlows, 0);
});

Deno.test("with affinity, the flows of a client address go to one endpoint", async () => {
  using one = openPeer();
  using two = openPeer();
  using client = openPeer();
  using again = openPeer();
  await using lab = startLab([]);
  lab.assign({ clusterEndpoints: [one.endpoint], affinitySeconds: 60 });
  await ask(client, lab.front, one);
  lab.assign({ clusterEndpoints: [two.endpoint, one.endpoint], affinitySeconds: 60 });
  await ask(again, lab.front, one);
});

Deno.test("IPv6 datagrams are carried", { ignore: !hasIPv6() }, async () => {
  using endpoint = openPeer("::1");
  using client = openPeer("::1");
  await using lab = startLab([endpoint.endpoint], { family: "IPv6" });
  assert.equal((await ask(client, lab.front, endpoint)).answer, "re: question");
});

Deno.test("an IPv4 client of an IPv6 socket is not served", { ignore: !hasIPv6() }, async () => {
  using endpoint = openPeer("::1");
  using stranger = openPeer();
  using client = openPeer("::1");
  await using lab = startLab([endpoint.endpoint], { family: "IPv6", hostname: "::" });
  await stranger.send("forged", { ...lab.front, hostname: "127.0.0.1" });
  await client.send("question", { ...lab.front, hostname: "::1" });
  assert.equal((await endpoint.receive()).text, "question");
});

function hasIPv6(): boolean {
  try {
    openPeer("::1")[Symbol.dispose]();
    return true;
  } catch {
    return false;
  }
}
