/** Number, idle time and eviction of connections. */
import assert from "node:assert/strict";
import { type Connection, createConnectionLimits } from "../../../../platform/http/connection_limits.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, type FakeClock, settled } from "../../../fakes/clock.ts";
import { until } from "../../../fakes/wait.ts";

type Limits = ReturnType<typeof createConnectionLimits>;

/** A listener under test. */
interface Port {
  /** Connects and sends this many bytes. */
  client(bytes?: number): Promise<Client>;
  readonly served: number;
  /** How often the server has received something. */
  readonly reads: number;
}

interface Client {
  readonly connection: Deno.Conn;
  /** Whether the server has closed the connection. */
  isOver(): boolean;
}

async function withLimits(
  options: { max?: number; maxPerListener?: number },
  test: (t: { clock: FakeClock; limits: Limits; port: () => Port; stop: AbortController }) => Promise<void>,
): Promise<void> {
  const clock = createFakeClock(), stop = new AbortController();
  const limits = createConnectionLimits({ clock, ...options });
  const clients: Client[] = [];
  const port = (): Port => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    let served = 0, reads = 0;
    const serve = async (connection: Connection) => {
      served++;
      try {
        while (await connection.read(new Uint8Array(16)) !== null) reads++;
      } catch {
        // Closed by the limits.
      }
    };
    limits.accept(listener, { serve, logger: silentLogger, signal: stop.signal });
    return {
      get served() {
        return served;
      },
      get reads() {
        return reads;
      },
      async client(bytes = 0) {
        const before = served;
        const connection = await Deno.connect({ port });
        let over = false;
        connection.read(new Uint8Array(1)).catch(() => null).then(() => over = true);
        await until(() => served > before || over);
        if (bytes > 0) await connection.write(new Uint8Array(bytes));
        const client = { connection, isOver: () => over };
        clients.push(client);
        return client;
      },
    };
  };
  try {
    await test({ clock, limits, port, stop });
  } finally {
    stop.abort();
    for (const { connection } of clients) connection.close();
  }
}

Deno.test("a connection beyond the listener's limit evicts the longest-waiting one", () =>
  withLimits({ maxPerListener: 3 }, async ({ limits, port }) => {
    const flooded = port(), other = port();
    const elsewhere = await other.client();
    const [first, second, third] = [await flooded.client(), await flooded.client(), await flooded.client()];
    // Has just sent a byte, unlike the other two.
    await first.connection.write(new Uint8Array(1));
    await until(() => flooded.reads === 1);
    const fourth = await flooded.client();
    await until(second.isOver);
    assert.deepEqual([first, third, fourth, elsewhere].map((one) => one.isOver()), [false, false, false, false]);
    assert.equal(limits.open(), 4);
  }));

Deno.test("the total limit evicts from the listener itself first, then the oldest connection of any", () =>
  withLimits({ max: 3 }, async ({ limits, port }) => {
    const health = port(), flooded = port(), quiet = port();
    const probe = await health.client();
    const first = await flooded.client(), second = await flooded.client();
    const third = await flooded.client();
    await until(first.isOver);
    assert.equal(probe.isOver(), false, "a flood of another listener does not evict it");
    await quiet.client();
    await until(probe.isOver);
    assert.deepEqual([second, third].map((one) => one.isOver()), [false, false]);
    assert.equal(limits.open(), 3);
  }));

Deno.test("a connection that is being served is never evicted", async () => {
  const clock = createFakeClock(), stop = new AbortController();
  const limits = createConnectionLimits({ clock, maxPerListener: 1 });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const answering = Promise.withResolvers<void>(), requested = Promise.withResolvers<void>();
  const serve = async (connection: Connection) => {
    requested.resolve();
    await answering.promise;
    await connection.write(new Uint8Array([42]));
  };
  limits.accept(listener, { serve, logger: silentLogger, signal: stop.signal });
  const served = await Deno.connect({ port: listener.addr.port });
  await requested.promise;
  const refused = await Deno.connect({ port: listener.addr.port });
  assert.equal(await refused.read(new Uint8Array(1)).catch(() => null), null);
  answering.resolve();
  const answer = new Uint8Array(1);
  await served.read(answer);
  assert.equal(answer[0], 42);
  served.close();
  refused.close();
  stop.abort();
});

Deno.test("a connection idle for 5 seconds is closed; each byte restarts the timer", () =>
  withLimits({}, async ({ clock, limits, port }) => {
    const idle = port(), silent = await idle.client(), active = await idle.client();
    await clock.advanceSettled(4_000);
    await active.connection.write(new Uint8Array(1));
    await until(() => idle.reads === 1);
    await clock.advanceSettled(1_000);
    await until(silent.isOver);
    assert.equal(active.isOver(), false);
    await clock.advanceSettled(4_000);
    await until(active.isOver);
    assert.equal(limits.open(), 0);
    assert.deepEqual(clock.pending(), []);
  }));

Deno.test("at most 16 connections are accepted per 20 ms; the rest wait in the kernel", () =>
  withLimits({ maxPerListener: 2 }, async ({ clock, port }) => {
    const flooded = port();
    const flood = Array.from({ length: 40 }, () => flooded.client());
    await until(() => clock.pending().includes(20));
    assert.equal(flooded.served, 16);
    while (flooded.served < 40) await clock.advanceSettled(20);
    await Promise.all(flood);
  }));

Deno.test("the signal closes the listener and its connections at once", () =>
  withLimits({}, async ({ clock, limits, port, stop }) => {
    const { client } = port();
    const silent = await client();
    stop.abort();
    await until(silent.isOver);
    assert.equal(limits.open(), 0);
    await assert.rejects(client());
    await settled();
    assert.deepEqual(clock.pending(), []);
  }));

Deno.test("once accepting has ended, the ports are free", async () => {
  const limits = createConnectionLimits({ clock: createFakeClock() }), stop = new AbortController();
  const listeners = [0, 0].map((port) => Deno.listen({ hostname: "127.0.0.1", port }));
  const options = { serve: () => Promise.resolve(), logger: silentLogger, signal: stop.signal };
  const accepting = Promise.all(listeners.map((listener) => limits.accept(listener, options)));
  let hasEnded = false;
  limits.ended().then(() => hasEnded = true);
  await settled();
  assert.equal(hasEnded, false);
  stop.abort();
  await limits.ended();
  for (const { addr: { hostname, port } } of listeners) Deno.listen({ hostname, port }).close();
  await accepting;
});

Deno.test("a connection that cannot be accepted, as without file descriptors, is tried again after a pause", async () => {
  const clock = createFakeClock(), stop = new AbortController();
  let tries = 0;
  const listener = {
    accept: () => Promise.reject(new Error(`too many open files: ${++tries}`)),
    close() {},
  } as unknown as Deno.Listener;
  const accepting = createConnectionLimits({ clock }).accept(listener, {
    ...{ serve: () => Promise.resolve(), logger: silentLogger, signal: stop.signal },
  });
  await settled();
  assert.equal(tries, 1);
  await clock.advanceSettled(100);
  assert.equal(tries, 2);
  stop.abort();
  await accepting;
  assert.deepEqual(clock.pending(), []);
});
