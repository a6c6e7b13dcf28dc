/** A server whose watchers are written by two workers. */
import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { startServing } from "../../../../kpng/server/mod.ts";
import type { SpawnServing } from "../../../../kpng/server/serving_workers.ts";
import { METHODS, OP_ITEM, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { STATUS } from "../../../../kpng/transport/grpc.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { spawnServingWorker } from "../../../../workers/serving.ts";
import { LIMITS } from "../../../../kpng/server/context.ts";
import type { FromServingWorker, ToServingWorker } from "../../../../kpng/server/mod.ts";
import type { WorkerListener } from "../../../../platform/supervised_worker.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { connectKpngClient } from "../../../fakes/kpng.ts";
import { until } from "../../../fakes/wait.ts";
import { manyServices, type Served, withServer } from "./served.ts";

const ASK = WATCH_REQUEST.encode({ extended: true });
/** With so many connections, the kernel gives some to each of two workers, except once in a million runs. */
const ENOUGH = 20;

/** Two workers that can be killed, and the workers that have asked for something. */
function twoWorkers() {
  const kills: (() => void)[] = [];
  const asked = new Set<number>();
  const spawn: SpawnServing = (listener) => {
    let row: number;
    const worker = spawnServingWorker({
      ...listener,
      onMessage(message) {
        if (message.type === "ask") asked.add(row);
        listener.onMessage(message);
      },
    });
    return {
      ...worker,
      post(message) {
        if (message.type === "start") {
          row = message.row;
          kills[row] = () => listener.onFailure("killed");
        }
        worker.post(message);
      },
    };
  };
  return { asked, kill: (row: number) => kills[row]!(), workers: { count: 2, spawn } };
}

type Client = ReturnType<typeof connectKpngClient>;

function connectAll({ port }: Served, count = ENOUGH): Client[] {
  return Array.from({ length: count }, () => connectKpngClient(port, METHODS.global));
}

async function rounds(clients: readonly Client[]): Promise<string[][]> {
  const received = await Promise.all(clients.map((client) => client.round(ASK)));
  return received.map((messages) => messages.map(operation));
}

/** Connects until the state arrives, as a node does: the kernel may still give a connection to the worker that dies. */
async function reconnect(served: Served): Promise<Client> {
  for (;;) {
    const [client] = connectAll(served, 1);
    const received = await client!.round(ASK).catch(() => undefined);
    if (received !== undefined) {
      assert.deepEqual(received.map(operation), ["reset", "default|web||", "sync"]);
      return client!;
    }
    client!.close();
  }
}

function operation(bytes: Uint8Array<ArrayBuffer>): string {
  const { set, delete: deleted, ...rest } = OP_ITEM.decode(bytes);
  return set?.ref?.path ?? (deleted !== undefined ? `-${deleted.path}` : Object.keys(rest)[0]!);
}

Deno.test("two workers serve the same state and its changes, and the counts are their sums", async () => {
  const { asked, workers } = twoWorkers();
  const lags: number[] = [];
  await withServer(manyServices(200), async (served) => {
    const { store, serving } = served;
    const clients = connectAll(served);
    const first = await rounds(clients);
    assert.deepEqual(asked, new Set([0, 1]));
    assert.equal(first[0]!.length, 402);
    for (const other of first) assert.deepEqual(other, first[0]);

    const next = rounds(clients);
    store.set(service("default/new"));
    for (const operations of await next) assert.deepEqual(operations, ["default|new||", "sync"]);
    await until(() => lags.length === 1);

    const counts = (["watchers global", "rounds global", "connections"] as const).map(serving.count);
    assert.deepEqual(counts, [ENOUGH, 2 * ENOUGH, ENOUGH]);
    assert.equal(serving.count("bytes global") % ENOUGH, 0, "each watcher received the same bytes");
    for (const client of clients) client.close();
    await until(() => serving.watchers() === 0 && serving.connections() === 0);
    assert.equal(lags.length, 1);
  }, { workers, onLag: (lagMs) => lags.push(lagMs) });
});

Deno.test("a worker sends the state of one node", async () => {
  const { workers } = twoWorkers();
  await withServer([service("default/web")], async ({ port, store }) => {
    const client = connectKpngClient(port, METHODS.local);
    const request = WATCH_REQUEST.encode({ extended: true, nodeName: "n1" });
    await client.round(request);
    const next = client.round(request);
    store.set(service("default/api"));
    assert.deepEqual((await next).map(operation), ["default/api", "sync"]);
    client.close();
  }, { workers });
});

Deno.test("the watchers of a worker that dies reconnect, and are served by the others and its successor", async () => {
  const { kill, workers } = twoWorkers();
  await withServer([service("default/web")], async (served) => {
    const { serving } = served;
    const clients = connectAll(served);
    await rounds(clients);
    kill(0);
    const remaining = serving.watchers();
    assert.ok(remaining > 0 && remaining < ENOUGH, `${remaining} watchers remain`);
    // Its successor listens soon; until then, all connections go to the other worker.
    const again = await Promise.all(Array.from({ length: ENOUGH - remaining }, () => reconnect(served)));
    await until(() => serving.watchers() === ENOUGH);
    for (const client of [...clients, ...again]) client.close();
  }, { workers });
});

Deno.test("limits apply to all workers together", async () => {
  const { asked, workers } = twoWorkers();
  await withServer([service("default/web")], async (served) => {
    const clients: Client[] = [];
    let refused = 0;
    // Refused watchers ask for nothing, so the accepted ones are enough for both workers.
    for (let i = 0; i < ENOUGH + 4; i++) {
      const [client] = connectAll(served, 1);
      const outcome = await Promise.race([
        client!.round(ASK).then(() => undefined, () => client!.status),
        client!.status,
      ]);
      if (outcome === STATUS.RESOURCE_EXHAUSTED) refused++;
      else clients.push(client!);
      if (outcome !== undefined) client!.close();
    }
    assert.deepEqual(asked, new Set([0, 1]));
    assert.deepEqual([clients.length, refused, served.serving.count("refused watchers")], [ENOUGH, 4, 4]);
    for (const client of clients) client.close();
  }, { workers, limits: { streams: ENOUGH } });
});

Deno.test("connections from one address are limited for all workers together", async () => {
  const { workers } = twoWorkers();
  await withServer([service("default/web")], async (served) => {
    const clients: Client[] = [];
    for (let i = 0; i < ENOUGH; i++) {
      const [client] = connectAll(served, 1);
      clients.push(client!);
      await Promise.race([client!.round(ASK).catch(() => {}), client!.status]);
    }
    assert.equal(served.serving.watchers(), 6);
    assert.equal(served.serving.closed("too many connections from one address"), ENOUGH - 6);
    for (const client of clients) client.close();
  }, { workers, limits: { connectionsPerAddress: 6 } });
});

Deno.test("at shutdown, the watchers of all workers get UNAVAILABLE", async () => {
  const { asked, workers } = twoWorkers();
  await withServer([service("default/web")], async (served) => {
    const clients = connectAll(served);
    await rounds(clients);
    assert.deepEqual(asked, new Set([0, 1]));
    await served.serving.close();
    for (const client of clients) assert.equal(await client.status, STATUS.UNAVAILABLE);
    assert.equal(served.serving.connections(), 0);
  }, { workers });
});

Deno.test("a port that another server uses is an error", async () => {
  const { workers } = twoWorkers();
  await withServer([], async ({ port }) => {
    await assert.rejects(
      withServer([], () => Promise.resolve(), { port, workers }),
      /--listen 127\.0\.0\.1:\d+: cannot listen: .*in use/,
    );
  }, { workers });
});

Deno.test("the successor of a worker that dies starts with the renewed certificates", async () => {
  const clock = createFakeClock();
  const started: (string | undefined)[] = [];
  let fail = (_reason: string) => {};
  const spawn: SpawnServing = ({ onMessage, onFailure }) => {
    fail = onFailure;
    queueMicrotask(() => onMessage({ type: "listening" }));
    return {
      post(message) {
        if (message.type === "start") started.push(message.settings.tls?.crt);
        if (message.type === "close") queueMicrotask(() => onMessage({ type: "closed" }));
      },
      terminate() {},
    };
  };
  const tls = { ca: "authority", crt: "old", key: "key" };
  const server = await startServing({
    address: { kind: "tcp", host: "127.0.0.1", port: 0 },
    tls,
    store: createStore({ clock, onProblems: () => {} }),
    clock,
    logger: silentLogger,
    workers: { count: 1, spawn },
  });
  server.renew({ ...tls, crt: "new" });
  fail("killed");
  await clock.advanceSettled(1000);
  assert.deepEqual(started, ["old", "new"]);
  await server.close();
});

/** A server with two workers, whose messages a test makes. */
function withFakeWorkers(onLag?: (lagMs: number) => void) {
  const clock = createFakeClock();
  const workers: (WorkerListener<FromServingWorker> & { readonly posted: ToServingWorker[]; isTerminated: boolean })[] =
    [];
  const spawn: SpawnServing = (listener) => {
    const posted: ToServingWorker[] = [], worker = { ...listener, posted, isTerminated: false };
    workers.push(worker);
    return {
      post: (message) => void posted.push(message as ToServingWorker),
      terminate: () => void (worker.isTerminated = true),
    };
  };
  const store = createStore({ clock, onProblems: () => {} });
  const started = startServing({
    ...{
      address: { kind: "tcp", host: "127.0.0.1", port: 0 },
      tls: undefined,
      store,
      clock,
      logger: silentLogger,
      onLag,
    },
    workers: { count: 2, spawn },
  });
  return { clock, store, workers, started };
}

Deno.test("two workers share the transfers and the budget of a server", async () => {
  const { workers, started } = withFakeWorkers();
  await until(() => workers.length === 2);
  for (const { posted, onMessage } of workers) {
    const [start] = posted;
    assert(start?.type === "start");
    assert.equal(start.settings.limits.transfers, LIMITS.transfers / 2);
    assert.equal(start.settings.limits.unreadBytes, LIMITS.unreadBytes / 2);
    onMessage({ type: "listening" });
  }
  const closing = (await started).close();
  for (const { onMessage } of workers) onMessage({ type: "closed" });
  await closing;
});

Deno.test("if one of two workers cannot listen, the server does not start, and neither runs on", async () => {
  const { workers, started } = withFakeWorkers();
  await until(() => workers.length === 2);
  workers[0]!.onMessage({ type: "listening" });
  workers[1]!.onMessage({ type: "failed", reason: "no memory" });
  await assert.rejects(started, /no memory/);
  assert.deepEqual(workers.map(({ isTerminated }) => isTerminated), [true, true]);
});

Deno.test("a worker that dies is restarted within 0.1 s, later if it dies again soon, and its watchers delay no lag", async () => {
  const lags: number[] = [];
  const { clock, store, workers, started } = withFakeWorkers((lagMs) => lags.push(lagMs));
  await until(() => workers.length === 2);
  for (const { onMessage } of workers) onMessage({ type: "listening" });
  const server = await started;
  for (const kind of KINDS) store.synced(kind);
  clock.advance(2);
  for (const { onMessage } of workers) {
    onMessage({ type: "received", revision: store.revision(), wasWritten: true });
  }
  lags.length = 0;
  store.set(service("default/web"));
  clock.advance(2);
  workers[1]!.onMessage({ type: "received", revision: store.revision(), wasWritten: true });
  assert.deepEqual(lags, []);
  let alive = workers[0]!;
  /** The worker dies, and another one listens after this time. */
  const dies = (restartMs: number) => {
    const before = workers.length;
    alive.onFailure("killed");
    clock.advance(restartMs / 2 - 1);
    assert.equal(workers.length, before);
    clock.advance(restartMs / 2 + 1);
    assert.equal(workers.length, before + 1);
    alive = workers.at(-1)!;
    alive.onMessage({ type: "listening" });
  };
  for (const restartMs of [100, 200, 400]) dies(restartMs);
  clock.advance(30_000);
  for (const { onMessage } of [...workers]) onMessage({ type: "pong" });
  clock.advance(30_000);
  dies(100);
  assert.equal(lags.length, 1);
  const closing = server.close();
  for (const { onMessage } of workers) onMessage({ type: "closed" });
  await closing;
});

Deno.test("a server removes the socket of an earlier one, and no other file", async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/sluice.sock`;
  const start = () => {
    const clock = systemClock, store = createStore({ clock, onProblems: () => {} });
    return startServing({ address: { kind: "unix", path }, tls: undefined, store, clock, logger: silentLogger });
  };
  try {
    Deno.writeTextFileSync(path, "notes");
    await assert.rejects(start(), /cannot listen/);
    assert.equal(Deno.readTextFileSync(path), "notes");
    Deno.removeSync(path);
    const left = Deno.listen({ transport: "unix", path });
    left.close();
    await (await start()).close();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
