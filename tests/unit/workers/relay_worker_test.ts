import assert from "node:assert/strict";
import type { FamilyDelta, ServicePort } from "../../../core/model/mod.ts";
import { silentLogger } from "../../../platform/log.ts";
import type { WorkerListener } from "../../../platform/supervised_worker.ts";
import { createBackoff } from "../../../platform/retry.ts";
import { systemClock } from "../../../platform/clock.ts";
import {
  type FromRelay,
  type RelayApplied,
  type RelayStart,
  startRelayWorker,
  type ToRelay,
} from "../../../workers/relay_worker.ts";
import { spawnRelay } from "../../../workers/relays.ts";
import { reservePort } from "../../fakes/sockets.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";
import { inTime, until } from "../../fakes/wait.ts";

const START: RelayStart = {
  type: "start",
  family: "IPv4",
  placement: { by: "redirect", udpAddress: "127.0.0.1" },
  settings: { files: 1024, maxConnections: 0, udpIdleTimeoutMs: 0 },
  logLevel: "error",
  logFormat: "text",
};
const settings = fakeSettings({ mode: "userspace" });
const whole = (...set: ServicePort[]): FamilyDelta => ({ revision: 1, base: undefined, settings, set, deleted: [] });

/** A relay worker over fake workers; the waits before a restart are 100 ms, or grow to others. */
function supervised(longestMs = 100) {
  const clock = createFakeClock();
  const workers: { received: ToRelay[]; listener: WorkerListener<FromRelay>; isTerminated: boolean }[] = [];
  const told: string[] = [];
  const relay = startRelayWorker({
    start: START,
    spawn(listener) {
      const worker = { received: [] as ToRelay[], listener, isTerminated: false };
      workers.push(worker);
      return {
        post: (message) => void worker.received.push(message),
        terminate: () => void (worker.isTerminated = true),
      };
    },
    clock,
    logger: silentLogger,
    backoff: createBackoff({ firstMs: 100, longestMs, jitter: 0 }),
  });
  relay.listen({
    onApplied: ({ revision }) => void told.push(`applied ${revision}`),
    onLost: (reason, restarts) => void told.push(`lost ${restarts}: ${reason}`),
    onRestarted: () => void told.push("restarted"),
  });
  return { relay, clock, workers, told };
}

Deno.test("a relay worker that dies is replaced after a wait, and what it missed is lost", async () => {
  const { relay, clock, workers, told } = supervised();
  relay.apply(whole());
  assert.deepEqual(workers[0]!.received.map(({ type }) => type), ["start", "apply"]);
  workers[0]!.listener.onFailure("out of memory");
  relay.apply(whole());
  await settled();
  assert.deepEqual(told, ["lost 1: out of memory"]);
  await clock.advanceSettled(100);
  assert.deepEqual(told, ["lost 1: out of memory", "restarted"]);
  assert.deepEqual(workers[1]!.received.map(({ type }) => type), ["start"]);
});

Deno.test("the waits before restarts grow until a relay has applied something", async () => {
  const { clock, workers } = supervised(1000);
  const fail = () => workers.at(-1)!.listener.onFailure("out of memory");
  for (const waitMs of [100, 200]) {
    const count = workers.length;
    fail();
    await clock.advanceSettled(waitMs - 1);
    assert.equal(workers.length, count);
    await clock.advanceSettled(1);
    assert.equal(workers.length, count + 1);
  }
  workers.at(-1)!.listener.onMessage({ type: "applied", revision: 1, ports: [], problems: [], recovered: false });
  fail();
  await clock.advanceSettled(100);
  assert.equal(workers.length, 4);
});

Deno.test("a relay worker that does not stop in time is terminated", async () => {
  const { relay, clock, workers } = supervised();
  const stopped = relay.stop();
  assert.equal(relay.stop(), stopped);
  // Longer than the relay itself waits for open connections.
  await clock.advanceSettled(5_000);
  assert.equal(workers[0]!.isTerminated, false);
  await clock.advanceSettled(2_000);
  await stopped;
  assert.equal(workers[0]!.isTerminated, true);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a relay worker that has stopped is not restarted", async () => {
  const { relay, clock, workers, told } = supervised();
  const stopped = relay.stop();
  workers[0]!.listener.onMessage({ type: "stopped" });
  await stopped;
  workers[0]!.listener.onFailure("ended");
  await clock.advanceSettled(1000);
  assert.deepEqual([workers.length, told], [1, []]);
});

Deno.test("a real relay worker carries connections and may do nothing but use the network", async () => {
  const endpoint = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    for await (const client of endpoint) await client.readable.pipeTo(client.writable).catch(() => {});
  })();
  const first = reservePort();
  const relay = startRelayWorker({
    start: { ...START, settings: { ...START.settings, ports: { first, last: first } } },
    spawn: (listener) => spawnRelay("IPv4", listener),
    // No time passes in which the worker could be terminated.
    clock: createFakeClock(),
    logger: silentLogger,
  });
  let applied = Promise.withResolvers<RelayApplied>();
  relay.listen({
    onApplied: (result) => applied.resolve(result),
    onLost: (reason) => applied.reject(new Error(reason)),
    onRestarted() {},
  });
  const sctp = fakeServicePort("default/sig", { protocol: "sctp" });
  const web = fakeServicePort("default/web", { clusterEndpoints: [`127.0.0.1:${endpoint.addr.port}`] });
  relay.apply(whole(web, sctp));
  const { ports, problems } = await applied.promise;
  assert.deepEqual([ports, problems], [[{ cluster: first }, undefined], []], "the kernel serves SCTP");
  const client = await Deno.connect({ hostname: "127.0.0.1", port: ports[0]!.cluster! });
  await client.write(new TextEncoder().encode("hello"));
  await client.closeWrite();
  assert.equal(await new Response(client.readable).text(), "hello");
  assert.equal((await relay.counts())!.connectionsAccepted, 1);
  const { port } = endpoint.addr;
  const loop = { ...web, clusterIP: "127.0.0.1", port };
  applied = Promise.withResolvers();
  relay.apply({ ...whole(loop), revision: 2, base: 1, settings: undefined });
  await applied.promise;
  await assert.rejects(async () => {
    using looping = await Deno.connect({ hostname: "127.0.0.1", port: ports[0]!.cluster! });
    await looping.write(new TextEncoder().encode("hello"));
    await looping.read(new Uint8Array(1));
  }, isReset);

  applied = Promise.withResolvers();
  relay.apply({ ...whole(web), revision: 3, base: 2, settings: undefined });
  await applied.promise;
  using open = await Deno.connect({ hostname: "127.0.0.1", port: ports[0]!.cluster! });
  const echoed = async (text: string) => {
    await open.write(new TextEncoder().encode(text));
    const buffer = new Uint8Array(text.length);
    await open.read(buffer);
    return new TextDecoder().decode(buffer);
  };
  assert.equal(await echoed("before"), "before");
  const stopped = relay.stop();
  await until(() => isRefused(first));
  assert.equal(await echoed("after"), "after", "an open connection goes on while the relay stops");
  open.close();
  await inTime("the end of the worker", stopped);
  endpoint.close();
  await serving;
});

/** Whether an error is that of a reset, which may come before the runtime has asked for the addresses of the connection. */
function isReset(error: Error): boolean {
  return error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.NotConnected;
}

async function isRefused(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return false;
  } catch {
    return true;
  }
}

Deno.test("a service port that gets its listener later than others is reported, since its rules need the port", async () => {
  const port = reservePort(), other = Deno.listen({ hostname: "127.0.0.1", port });
  const relay = startRelayWorker({
    start: { ...START, placement: { by: "localhost-node-ports", addresses: ["127.0.0.1"] } },
    spawn: (listener) => spawnRelay("IPv4", listener),
    clock: systemClock,
    logger: silentLogger,
  });
  const serve = (name: string, nodePort: number) =>
    fakeServicePort(name, { nodePort, clusterEndpoints: ["127.0.0.1:9"] });
  const apply = (delta: FamilyDelta) =>
    new Promise<RelayApplied>((resolve, reject) => {
      relay.listen({ onApplied: resolve, onLost: (reason) => reject(new Error(reason)), onRestarted() {} });
      relay.apply(delta);
    });
  const first = await apply(whole(serve("default/late", port)));
  assert.deepEqual([first.problems.map(({ code }) => code), first.recovered], [["not-relayed"], false]);
  const still = await apply({ ...whole(serve("default/other", reservePort())), revision: 2, base: 1 });
  assert.deepEqual([still.problems.map(({ servicePort }) => servicePort), still.recovered], [["default/late"], false]);
  other.close();
  const second = await apply({
    revision: 3,
    base: 2,
    settings: undefined,
    set: [serve("default/web", reservePort())],
    deleted: [],
  });
  assert.deepEqual([second.problems, second.recovered], [[], true]);
  await relay.stop();
});

Deno.test("a relay worker answers for its traffic and its counts by number; one that is gone or silent gives none", async () => {
  const { relay, clock, workers } = supervised();
  const reading = { durationMs: 1, ports: [], endpoints: [], counts: new Float64Array(), failures: [] };
  const says = (message: FromRelay) => workers[0]!.listener.onMessage(message);
  const traffic = relay.traffic(), wrong = relay.traffic(), counts = relay.counts();
  assert.deepEqual(workers[0]!.received.slice(1), [
    { type: "traffic", number: 1 },
    { type: "traffic", number: 2 },
    { type: "counts", number: 1 },
  ]);
  says({ type: "counts", number: 1, counts: { bytesToClients: 5 } as never });
  says({ type: "traffic", number: 2, reading: { ...reading, durationMs: NaN } });
  says({ type: "traffic", number: 1, reading });
  assert.deepEqual([await traffic, await wrong, await counts], [reading, undefined, { bytesToClients: 5 }]);
  const late = relay.traffic();
  await clock.advanceSettled(60_000);
  assert.equal(await late, undefined);
  workers[0]!.listener.onFailure("out of memory");
  assert.deepEqual([await relay.traffic(), await relay.counts()], [undefined, undefined]);
});
