/** Hostile or broken clients: none of them stops the server for others or exhausts its memory. */
import assert from "node:assert/strict";
import { framesOf, STATUS } from "../../../../kpng/transport/grpc.ts";
import { METHODS, OP_ITEM, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { connectKpngClient, openGrpcCall } from "../../../fakes/kpng.ts";
import { seededBelow } from "../../../fakes/random.ts";
import { passing, passingDuring, until } from "../../../fakes/wait.ts";
import { manyServices, type Served, withServer } from "./served.ts";

const ASK = WATCH_REQUEST.encode({});

/** Whether a well-behaved watcher is served. */
async function isServed({ port }: Served): Promise<boolean> {
  const client = connectKpngClient(port, METHODS.global);
  const round = await client.round(ASK);
  client.close();
  return OP_ITEM.decode(round.at(-1)!).sync !== undefined;
}

const GARBAGE = {
  "an invalid request": [framesOf([Uint8Array.of(0xff, 0xff, 0xff)]), STATUS.INVALID_ARGUMENT],
  "a compressed request": [Uint8Array.of(1, 0, 0, 0, 0), STATUS.UNIMPLEMENTED],
  "a request with an unknown flag": [Uint8Array.of(2, 0, 0, 0, 0), STATUS.INTERNAL],
  "a request of four gigabytes": [Uint8Array.of(0, 0xff, 0xff, 0xff, 0xff), STATUS.RESOURCE_EXHAUSTED],
} as const;

for (const [name, [bytes, expected]] of Object.entries(GARBAGE)) {
  Deno.test(`${name} ends its call`, async () => {
    await withServer([service("default/web")], async (served) => {
      const { stream, session, status } = openGrpcCall(served.port, METHODS.global);
      stream.resume();
      stream.write(bytes);
      assert.equal(await status, expected);
      session.destroy();
      assert.ok(await isServed(served));
      await until(() => served.serving.watchers() === 0);
    });
  });
}

Deno.test("an unknown method is unimplemented", async () => {
  await withServer([], async ({ port }) => {
    const { stream, session, status } = openGrpcCall(port, "/globalv1.Sets/Drop");
    stream.resume();
    assert.equal(await status, STATUS.UNIMPLEMENTED);
    session.destroy();
  });
});

Deno.test("bytes that are not HTTP/2 end their connection", async () => {
  const random = seededBelow();
  await withServer([service("default/web")], async (served) => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: served.port });
    await connection.write(new Uint8Array(4096).map(() => random(256)));
    // The server's data before it closes the connection does not matter.
    const buffer = new Uint8Array(4096);
    while (await connection.read(buffer).catch(() => null) !== null);
    connection.close();
    assert.ok(await isServed(served));
  });
});

Deno.test("a client that requests without reading loses its call, and others keep theirs", async () => {
  await withServer([service("default/web")], async (served) => {
    const { stream, session, status } = openGrpcCall(served.port, METHODS.global);
    stream.resume();
    const many = framesOf(Array.from({ length: 1000 }, () => ASK));
    for (let i = 0; i < 1000 && !stream.destroyed; i++) stream.write(many);
    assert.ok([STATUS.RESOURCE_EXHAUSTED, -1].includes(await status));
    session.destroy();
    await until(() => served.serving.watchers() === 0);
    assert.ok(await isServed(served));
  });
});

Deno.test("a stalled reader is disconnected after a while, and blocks no other", async () => {
  const clock = createFakeClock();
  await withServer(manyServices(1000), async (served) => {
    // More than there are transfers at a time.
    const stalled = Array.from({ length: 6 }, () => {
      const { stream, session } = openGrpcCall(served.port, METHODS.global);
      stream.pause();
      stream.write(framesOf([ASK]));
      return session;
    });
    await until(() => served.serving.watchers() === stalled.length);
    // Slowly: a busy machine takes many turns to carry a message from one side to the other.
    assert.ok(await passingDuring(clock, isServed(served), 2));
    await passing(clock, () => served.serving.watchers() === 0);
    for (const session of stalled) session.destroy();
  }, { clock, limits: { stallMs: 1000 } });
});

Deno.test("idle streams and connections are limited and closed", async () => {
  const clock = createFakeClock();
  await withServer([service("default/web")], async (served) => {
    const open = () => openGrpcCall(served.port, METHODS.global);
    const idle = [open(), open()];
    await until(() => served.serving.watchers() === 2);
    const refused = open();
    refused.stream.resume();
    assert.equal(await refused.status, STATUS.RESOURCE_EXHAUSTED);
    for (const { stream } of idle) stream.resume();
    clock.advance(200);
    assert.deepEqual(await Promise.all(idle.map(({ status }) => status)), [
      STATUS.INVALID_ARGUMENT,
      STATUS.INVALID_ARGUMENT,
    ]);
    await until(() => served.serving.watchers() === 0);
    assert.ok(await isServed(served));
    for (const { session } of [...idle, refused]) session.destroy();
  }, { clock, limits: { streams: 2, idleMs: 200 } });
});

Deno.test("a connection that opens too many streams is closed", async () => {
  await withServer([service("default/web")], async (served) => {
    const { session } = openGrpcCall(served.port, METHODS.global);
    const closed = new Promise<void>((resolve) => session.on("close", () => resolve()));
    const open = () => {
      if (session.destroyed || session.closed) return;
      const stream = session.request({
        ":method": "POST",
        ":path": METHODS.global,
        "content-type": "application/grpc",
      });
      stream.on("error", () => {});
      stream.on("response", () => stream.close(8));
      stream.on("close", open);
    };
    for (let i = 0; i < 5; i++) open();
    await closed;
    assert.ok(await isServed(served));
  });
});
