/** Several servers: which one is watched, and what reaches the sink when another one takes over. */
import assert from "node:assert/strict";
import { type ClusterObject, KINDS, type Source } from "../../../../core/objects/mod.ts";
import type { ReportLink } from "../../../../core/objects/source.ts";
import { createFamilyPlanner } from "../../../../core/planning/mod.ts";
import { createTracking } from "../../../../core/tracking/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { METHODS, OP_ITEM, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { startServing } from "../../../../kpng/server/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createGrpcSource } from "../../../../sources/grpc/mod.ts";
import { reservePort } from "../../../fakes/sockets.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { connectKpngClient, recordedCalls, type RecordingSink, startKpngServer } from "../../../fakes/kpng.ts";
import { type Served, withServer } from "../../kpng/server/served.ts";
import { until } from "../../../fakes/wait.ts";
import { withSource } from "./grpc_source.ts";

const web = service("default/web");
const slice = (address: string) => endpointSlice("default/web-1", [endpoint(address)]);
const addressOf = (port: number) => ({ kind: "tcp", host: "127.0.0.1", port }) as const;

/** A server that runs until `stop`. */
interface RunningServer extends Served {
  stop(): Promise<void>;
}

function start(objects: readonly ClusterObject[], port?: number): Promise<RunningServer> {
  return new Promise((resolve, reject) => {
    const end = Promise.withResolvers<void>();
    const ended = withServer(objects, async (served) => {
      const stop = () => {
        end.resolve();
        return ended;
      };
      resolve({ ...served, stop });
      await end.promise;
    }, { port });
    ended.catch(reject);
  });
}

/** Every change in the sink since the last call, as `set Service default/web`. */
const changes = (sink: RecordingSink) =>
  sink.take().filter((line) => /^(set|delete|reset|synced)/.test(line))
    .map((line) => line.split(" ").slice(0, 3).join(" "));

const inUse = (source: Source) => source.servers!().filter(({ inUse }) => inUse).map(({ address }) => address);

Deno.test("when a server dies, the next one takes over at once, and only the differences are reported", async () => {
  const a = await start([web, slice("10.1.0.1"), service("default/old")]);
  const b = await start([web, slice("10.1.0.1"), service("default/new")]);
  const addresses = [addressOf(a.port), addressOf(b.port)];
  const events: string[] = [];
  const onLink: ReportLink = (_, server, { type }) => events.push(`${type} ${server.split(":")[1]}`);
  await withSource(0, async (sink, logged, source) => {
    await sink.until("set Service default/old");
    assert.deepEqual(inUse(source), [`127.0.0.1:${a.port}`]);
    assert.equal(b.serving.watchers(), 0, "one server is watched at a time");
    sink.take();
    await a.stop();
    await sink.until("delete Service default/old");
    assert.deepEqual(inUse(source), [`127.0.0.1:${b.port}`]);
    assert.deepEqual(changes(sink).sort(), ["delete Service default/old", "set Service default/new"]);
    const lines = logged.map((line) => line.slice(25).trim());
    assert.match(lines[0]!, new RegExp(`^INFO +watching the server server=127.0.0.1:${a.port}$`));
    assert.match(
      lines[1]!,
      new RegExp(`^INFO +the server closes the connection, trying the next one .*next=127.0.0.1:${b.port}$`),
    );
    assert.match(lines[2]!, new RegExp(`server=127.0.0.1:${b.port} before=127.0.0.1:${a.port}$`));
    assert.equal(lines.length, 3);
    assert.deepEqual(events, [`answered ${a.port}`, `failed ${a.port}`, `answered ${b.port}`]);
    // Changes of the new server arrive as usual.
    b.store.set(slice("10.1.0.2"));
    await sink.until("10.1.0.2");
  }, { addresses, onLink, backoff: { firstMs: 600_000, longestMs: 600_000 } });
  await b.stop();
});

Deno.test("a server that comes back is not watched again before the current one fails", async () => {
  const a = await start([web]);
  const b = await start([web]);
  const addresses = [addressOf(a.port), addressOf(b.port)];
  await withSource(0, async (sink, _, source) => {
    await sink.until("set Service default/web");
    await a.stop();
    await sink.until(`before=127.0.0.1:${a.port}`);
    const back = await start([web, service("default/back")], a.port);
    b.store.set(service("default/later"));
    await sink.until("set Service default/later");
    assert.deepEqual([back.serving.watchers(), b.serving.watchers()], [0, 1]);
    sink.take();
    await b.stop();
    await sink.until("set Service default/back");
    assert.deepEqual(inUse(source), [`127.0.0.1:${a.port}`]);
    assert.deepEqual(changes(sink).sort(), ["delete Service default/later", "set Service default/back"]);
    await back.stop();
  }, { addresses });
});

for (const workedMs of [9_999, 10_000]) {
  const works = workedMs === 10_000;
  Deno.test(`a server that was watched for ${workedMs} ms has ${works ? "" : "not "}worked: ${works ? "all others are tried" : "it fails like the others"}`, async () => {
    const clock = createFakeClock();
    const a = await start([web]);
    const b = await start([web]);
    const addresses = [addressOf(a.port), addressOf(b.port)];
    await withSource(0, async (sink) => {
      await sink.until("set Service default/web");
      await a.stop();
      await sink.until(`before=127.0.0.1:${a.port}`);
      clock.advance(workedMs);
      await b.stop();
      // Where the log says what follows after the second failure.
      await sink.until(
        works ? `next=127.0.0.1:${a.port}` : `reconnecting server=127.0.0.1:${b.port}`,
      );
    }, { addresses, clock });
  });
}

Deno.test("while all servers are down, the last state stays in effect, and the first one back is watched", async () => {
  const a = await start([web]);
  const b = await start([web]);
  const addresses = [addressOf(a.port), addressOf(b.port)];
  await withSource(0, async (sink, _, source) => {
    await sink.until("set Service default/web");
    await b.stop();
    sink.take();
    await a.stop();
    await sink.until("retrying; the last state stays in effect");
    assert.deepEqual(inUse(source), []);
    assert.deepEqual(changes(sink), []);
    const back = await start([web, service("default/back")], b.port);
    await sink.until("set Service default/back");
    assert.deepEqual(changes(sink), ["set Service default/back"]);
    assert.deepEqual(inUse(source), [`127.0.0.1:${b.port}`]);
    await back.stop();
  }, { addresses });
});

Deno.test("a server that accepts connections but never answers is passed over, and so is one without a complete state", async () => {
  const silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of silent) connections.push(connection);
  })();
  const empty = createStore({ clock: systemClock, onProblems: () => {} });
  const unsynced = await startServing({
    address: addressOf(0),
    tls: undefined,
    store: empty,
    clock: systemClock,
    logger: silentLogger,
  });
  const good = await start([web]);
  assert.ok(unsynced.address.kind === "tcp");
  const addresses = [(silent.addr as Deno.NetAddr).port, unsynced.address.port, good.port].map(addressOf);
  await withSource(0, async (sink, logged, source) => {
    await sink.until(`watching the server server=127.0.0.1:${good.port}`);
    assert.deepEqual(inUse(source), [`127.0.0.1:${good.port}`]);
    for (const { port } of addresses.slice(0, 2)) {
      const isPassedOver = (line: string) => line.includes(`server=127.0.0.1:${port} reason="no answer within 0.05 s"`);
      assert.ok(logged.some(isPassedOver), logged.join(""));
    }
  }, { addresses, patience: { firstMs: 50, longestMs: 50 } });
  silent.close();
  await accepting;
  for (const connection of connections) connection.close();
  await unsynced.close();
  await good.stop();
});

Deno.test("once a server has answered, a silent one is again left as soon as at first", async () => {
  const silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const later = reservePort();
  const addresses = [(silent.addr as Deno.NetAddr).port, later].map(addressOf);
  await withSource(0, async (sink) => {
    await sink.until("no answer within 0.04 s");
    const good = await start([web], later);
    await sink.until("watching the server");
    sink.take();
    await good.stop();
    await sink.until("no answer within");
    assert.ok(sink.take().some((line) => line.includes("no answer within 0.02 s")));
  }, { addresses, patience: { firstMs: 20, longestMs: 20_000 } });
  silent.close();
});

Deno.test("a single server may take as long as it needs for its first answer", async () => {
  const store = createStore({ clock: systemClock, onProblems: () => {} });
  const serving = await startServing({
    address: addressOf(0),
    tls: undefined,
    store,
    clock: systemClock,
    logger: silentLogger,
  });
  assert.ok(serving.address.kind === "tcp");
  await withSource(serving.address.port, async (sink, logged) => {
    await until(() => serving.count("watchers global") > 0);
    store.set(web);
    for (const kind of KINDS) store.synced(kind);
    await sink.until("set Service default/web");
    assert.ok(!logged.some((line) => line.includes("WARN")), logged.join(""));
  }, { patience: { firstMs: 0, longestMs: 0 } });
  await serving.close();
});

Deno.test("what the new server does not send is gone, even if it does not begin with a Reset", async () => {
  const [first] = recordedCalls().at(-1)!;
  const withoutReset = first!.responses.filter((bytes) => OP_ITEM.decode(bytes).reset === undefined);
  const kpng = await startKpngServer([{ ...first!, responses: withoutReset }]);
  kpng.allow(1);
  const a = await start([web, service("default/old")]);
  await withSource(0, async (sink) => {
    await sink.until("set Service default/old");
    await a.stop();
    await sink.until("delete Service default/old");
    assert.ok(!sink.take().some((line) => line.startsWith("delete Service default/web")));
  }, { addresses: [addressOf(a.port), kpng.address] });
  await kpng.close();
});

Deno.test("from a Sluice to a KPNG server with the same content, the plan of no service changes", async () => {
  const objects = [web, slice("10.1.0.1"), endpointSlice("default/web-2", [endpoint("10.1.0.2")])];
  const a = await start(objects);
  const client = connectKpngClient(a.port, METHODS.global);
  const request = WATCH_REQUEST.encode({});
  const kpng = await startKpngServer([{
    method: METHODS.global,
    round: 0,
    request,
    responses: await client.round(request),
  }]);
  client.close();
  kpng.allow(1);
  const changed = Promise.withResolvers<void>();
  const tracking = createTracking({
    kinds: KINDS,
    nodeName: "node-1",
    bindAddress: "",
    clock: systemClock,
    onChange: () => changed.resolve(),
    onProblems: () => {},
  });
  const planner = createFamilyPlanner({ family: "IPv4", nodeName: "node-1", tracking, onProblems: () => {} });
  const source = createGrpcSource({
    addresses: [addressOf(a.port), kpng.address],
    tls: undefined,
    scope: "global",
    nodeName: "node-1",
    inFull: false,
    clock: systemClock,
    logger: silentLogger,
  });
  const stop = new AbortController();
  const ended = source.run(tracking, stop.signal);
  await changed.promise;
  const [port] = planner.plan(tracking.take()).set.values();
  assert.deepEqual(port?.clusterEndpoints, ["10.1.0.1:8080", "10.1.0.2:8080"]);
  await a.stop();
  await until(() => source.servers!()[1]!.inUse);
  const { set, deleted } = planner.plan(tracking.take());
  assert.deepEqual([set.size, deleted], [0, []]);
  stop.abort();
  await ended;
  await kpng.close();
});

Deno.test("the link says that the next server is tried at once, and how long all of them are left alone", async () => {
  const addresses = [addressOf(reservePort()), addressOf(reservePort())], waitsMs: number[] = [];
  const onLink: ReportLink = (_, __, event) => event.type === "failed" && waitsMs.push(event.retryInMs);
  await withSource(0, () => until(() => waitsMs.length >= 4), { addresses, onLink });
  assert.deepEqual(waitsMs.slice(0, 4).map((waitMs) => waitMs > 0), [false, true, false, true]);
});

Deno.test("a proxy receives its own node, a server of others all of them", async () => {
  await withServer([node("node-1"), node("node-2")], async ({ port }) => {
    for (const inFull of [false, true]) {
      await withSource(port, async (sink) => {
        await sink.until("synced Node");
        const nodes = changes(sink).filter((line) => line.startsWith("set Node")).length;
        assert.equal(nodes, inFull ? 2 : 1);
      }, { inFull });
    }
  });
});
