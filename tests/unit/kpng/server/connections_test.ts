import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Http2Server } from "node:http2";
import { type ClosureReason, createTallyMemory, openTally } from "../../../../kpng/server/metrics.ts";
import { admitConnections } from "../../../../kpng/server/connections.ts";
import { LIMITS } from "../../../../kpng/server/context.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** A socket whose `close` event comes later than its end, as with real ones. */
class FakeSocket extends EventEmitter {
  destroyed = false;
  constructor(readonly remoteAddress: string) {
    super();
  }
  destroy() {
    this.destroyed = true;
  }
  closed() {
    this.emit("close");
  }
}

function admitting(limits: { readonly connections: number; readonly connectionsPerAddress: number }) {
  const server = new EventEmitter();
  const tally = openTally(createTallyMemory(1), 0);
  admitConnections(server as Http2Server, {
    address: { kind: "tcp", host: "127.0.0.1", port: 0 },
    tls: undefined,
    clients: undefined,
    limits: { ...LIMITS, ...limits },
    clock: createFakeClock(),
    logger: silentLogger,
    tally,
  });
  const arrive = (address: string) => {
    const socket = new FakeSocket(address);
    server.emit("connection", socket);
    return socket;
  };
  return {
    arrive,
    closed: (reason: ClosureReason) => tally.total(`closed: ${reason}`),
    connections: () => tally.total("connections"),
  };
}

Deno.test("connections that arrive at once take the room of different ones", () => {
  const { arrive, closed, connections } = admitting({ connections: 2, connectionsPerAddress: 9 });
  const [first, second] = [arrive("192.0.2.1"), arrive("192.0.2.2")];
  const newcomers = [arrive("192.0.2.3"), arrive("192.0.2.4")];
  assert.deepEqual([first, second, ...newcomers].map(({ destroyed }) => destroyed), [true, true, false, false]);
  for (const socket of [first, second]) socket.closed();
  assert.equal(connections(), 2);
  assert.equal(closed("too many connections"), 2);
});

Deno.test("a connection that has ended makes no room", () => {
  const { arrive, connections } = admitting({ connections: 2, connectionsPerAddress: 9 });
  const ended = arrive("192.0.2.1"), open = arrive("192.0.2.1");
  ended.closed();
  arrive("192.0.2.2");
  assert.ok(!open.destroyed);
  arrive("192.0.2.3");
  assert.ok(open.destroyed);
  open.closed();
  assert.equal(connections(), 2);
});

Deno.test("an address at its limit takes no room from others", () => {
  const { arrive, closed } = admitting({ connections: 9, connectionsPerAddress: 2 });
  const other = arrive("192.0.2.2"), oldest = arrive("192.0.2.1"), next = arrive("192.0.2.1");
  const newest = arrive("192.0.2.1");
  assert.deepEqual([other, oldest, next, newest].map(({ destroyed }) => destroyed), [false, true, false, false]);
  assert.equal(closed("too many connections from one address"), 1);
  assert.equal(closed("too many connections"), 0);
});
