import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { createOutlet, createSendBudget } from "../../../../kpng/server/outlet.ts";
import { METHODS, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { FRAME } from "../../../../kpng/transport/http2.ts";
import { connectKpngClient } from "../../../fakes/kpng.ts";
import { callFrames, frame, joined, settings, uint32 } from "../../../fakes/raw_http2.ts";
import { until } from "../../../fakes/wait.ts";
import { manyServices, withServer } from "./served.ts";

const HEADER_BYTES = 9;

/** The outlet of a socket whose queue the test sets, and streams that take everything at once. */
function connected(queueBytes = 1000) {
  const socket = Object.assign(new EventEmitter(), { writableLength: 0 });
  const reports: number[] = [];
  const onUnread = (bytes: number) => reports.push(bytes);
  const outlet = createOutlet({ socket: socket as unknown as Socket, queueBytes, onUnread });
  const received = (bytes: Uint8Array) => {
    const { 3: type, 8: stream } = bytes;
    outlet.received(
      { length: bytes.length - HEADER_BYTES, type: type!, flags: 0, stream: stream! },
      bytes.subarray(HEADER_BYTES),
    );
  };
  return {
    socket,
    unread: () => reports.at(-1),
    settings: (windowBytes: number) => received(settings([4, windowBytes])),
    enlarge: (id: number, bytes: number) => received(frame(FRAME.windowUpdate, 0, id, uint32(bytes))),
    open(id: number) {
      const written: number[] = [];
      const stream = Object.assign(new EventEmitter(), {
        id,
        write(bytes: Uint8Array, then: () => void) {
          written.push(bytes.length);
          then();
        },
      });
      const send = outlet.open(stream as unknown as ServerHttp2Stream);
      return {
        send: (bytes: Uint8Array, then = () => {}) => send(bytes, then),
        taken: () => written.splice(0).reduce((sum, length) => sum + length, 0),
        close: () => stream.emit("close"),
      };
    },
  };
}

Deno.test("no more than the window of a stream is handed over, and the rest when the client enlarges it", () => {
  const { open, enlarge, unread } = connected();
  enlarge(0, 1_000_000);
  const stream = open(1);
  let isDone = false;
  stream.send(new Uint8Array(100_000), () => isDone = true);
  assert.deepEqual([stream.taken(), isDone, unread()], [65_535, false, 100_000]);
  enlarge(3, 50_000);
  assert.equal(stream.taken(), 0, "the window of another stream");
  enlarge(1, 30_000);
  enlarge(1, 10_000);
  assert.deepEqual([stream.taken(), isDone, unread()], [34_465, true, 0]);
});

Deno.test("all streams share the window of the connection", () => {
  const { open, enlarge } = connected();
  const [first, second] = [open(1), open(3)];
  first.send(new Uint8Array(60_000));
  second.send(new Uint8Array(60_000));
  assert.deepEqual([first.taken(), second.taken()], [60_000, 5_535]);
  enlarge(3, 100_000);
  assert.equal(second.taken(), 0);
  enlarge(0, 100_000);
  assert.equal(second.taken(), 54_465);
});

Deno.test("SETTINGS change the windows of all streams, also below zero", () => {
  const { open, settings, enlarge } = connected();
  settings(100);
  const stream = open(1);
  stream.send(new Uint8Array(300));
  assert.equal(stream.taken(), 100);
  settings(0);
  enlarge(1, 100);
  assert.equal(stream.taken(), 0);
  settings(150);
  assert.equal(stream.taken(), 150);
});

Deno.test("a window that is enlarged before its stream is opened counts", () => {
  const { open, settings, enlarge } = connected();
  settings(0);
  enlarge(3, 10);
  const [refused, stream] = [open(1), open(3)];
  for (const { send } of [refused, stream]) send(new Uint8Array(20));
  assert.deepEqual([refused.taken(), stream.taken()], [0, 10]);
});

Deno.test("windows that are enlarged early count for every stream of a long connection", () => {
  const { open, settings, enlarge } = connected();
  settings(0);
  const taken = Array.from({ length: 120 }, (_, index) => {
    const id = 2 * index + 1;
    enlarge(id, 10);
    const stream = open(id);
    stream.send(new Uint8Array(20));
    stream.close();
    return stream.taken();
  });
  assert.deepEqual(taken, taken.map(() => 10));
});

Deno.test("nothing is handed over while the socket has too much", () => {
  const { open, socket, unread } = connected(1000);
  const stream = open(1);
  socket.writableLength = 1001;
  stream.send(new Uint8Array(10));
  assert.deepEqual([stream.taken(), unread()], [0, 1011]);
  socket.writableLength = 0;
  socket.emit("drain");
  assert.deepEqual([stream.taken(), unread()], [10, 0]);
});

Deno.test("waiting memory that clients share does not count, and that of a closed stream no longer", () => {
  const { open, settings, unread } = connected();
  settings(0);
  open(1).send(new Uint8Array(new SharedArrayBuffer(500)));
  assert.equal(unread(), 0);
  const own = open(3);
  own.send(new Uint8Array(300));
  assert.equal(unread(), 300);
  own.close();
  assert.equal(unread(), 0);
});

Deno.test("above the budget, the clients that have not read for longest are disconnected", () => {
  const budget = createSendBudget(100);
  const gone: string[] = [];
  const [a, b, c] = ["a", "b", "c"].map((name) => () => void gone.push(name)) as [() => void, () => void, () => void];
  budget.set(a, 40);
  budget.set(b, 40);
  budget.set(a, 0);
  budget.set(a, 30);
  assert.deepEqual(gone, []);
  budget.set(c, 60);
  assert.deepEqual(gone, ["b"], "a has read since b");
  budget.set(c, 71);
  assert.deepEqual(gone, ["b", "a"]);
  budget.set(c, 101);
  assert.deepEqual(gone, ["b", "a", "c"]);
});

Deno.test("a client with large windows that does not read is disconnected at the budget, and others are served", async () => {
  await withServer(manyServices(2000), async ({ port, serving }) => {
    const calls = Array.from({ length: 16 }, (_, i) => callFrames(2 * i + 1, METHODS.global));
    const silent = await Deno.connect({ hostname: "127.0.0.1", port });
    await silent.write(joined(
      new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      settings([4, 2 ** 30]),
      frame(FRAME.windowUpdate, 0, 0, uint32(2 ** 30)),
      ...calls,
    ));
    await until(() => serving.closed("too much unread data") > 0);
    const client = connectKpngClient(port, METHODS.global);
    await client.round(WATCH_REQUEST.encode({}));
    client.close();
    silent.close();
  }, { limits: { unreadBytes: 32 * 1024 } });
});
