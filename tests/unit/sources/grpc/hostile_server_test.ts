/** Servers that violate or exhaust HTTP/2: none of them ends the process, and the next valid one is watched. */
import assert from "node:assert/strict";
import { call } from "../../../../sources/grpc/mod.ts";
import { METHODS, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { SYNC } from "../../../../kpng/views/operations.ts";
import { framesOf } from "../../../../kpng/transport/grpc.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import {
  callHeaders,
  FLAG,
  frame,
  header,
  joined,
  rawConnection,
  settings,
  TYPE,
  uint32,
  zeros,
} from "../../../fakes/raw_http2.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { runs } from "../../../property/runs.ts";
import { seededBelow } from "../../../fakes/random.ts";
import { randomFrames } from "../../../fakes/random_frames.ts";
import { withServer } from "../../kpng/server/served.ts";
import { withSource } from "./grpc_source.ts";

const RESPONSE = joined(
  settings(),
  frame(TYPE.settings, FLAG.ack, 0),
  frame(
    TYPE.headers,
    FLAG.endHeaders,
    1,
    joined(header(":status", "200"), header("content-type", "application/grpc")),
  ),
);
const ROUND = frame(TYPE.data, 0, 1, framesOf([SYNC]));

function repeated(count: number, bytes: Uint8Array): Uint8Array {
  return joined(...Array.from({ length: count }, () => bytes));
}

const BROKEN: Readonly<Record<string, Uint8Array>> = {
  "nothing": zeros(0),
  "HTTP/1.1": new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"),
  "zeros": zeros(1000),
  "RST_STREAM of three bytes": joined(RESPONSE, frame(TYPE.reset, 0, 1, zeros(3))),
  "RST_STREAM of three bytes instead of an answer": joined(settings(), frame(TYPE.reset, 0, 1, zeros(3))),
  "RST_STREAM of stream 0": joined(RESPONSE, frame(TYPE.reset, 0, 0, uint32(8))),
  "RST_STREAM with an error": joined(RESPONSE, frame(TYPE.reset, 0, 1, uint32(2))),
  "PING of seven bytes": joined(RESPONSE, frame(TYPE.ping, 0, 0, zeros(7))),
  "SETTINGS of five bytes": joined(RESPONSE, frame(TYPE.settings, 0, 0, zeros(5))),
  "SETTINGS with a window that is too large": joined(RESPONSE, settings([4, 0xffffffff])),
  "SETTINGS that allow no stream, and a GOAWAY": joined(
    settings([3, 0]),
    frame(TYPE.goaway, 0, 0, joined(uint32(0), uint32(0))),
  ),
  "WINDOW_UPDATE by nothing": joined(RESPONSE, frame(TYPE.windowUpdate, 0, 1, uint32(0))),
  "WINDOW_UPDATE of three bytes": joined(RESPONSE, frame(TYPE.windowUpdate, 0, 0, zeros(3))),
  "DATA without an answer": joined(settings(), ROUND),
  "DATA of a stream that was never opened": joined(RESPONSE, frame(TYPE.data, 0, 77, zeros(5))),
  "HEADERS that are no HPACK": joined(RESPONSE, frame(TYPE.headers, FLAG.endHeaders, 1, zeros(20).fill(255))),
  "HEADERS without a status": joined(settings(), frame(TYPE.headers, FLAG.endHeaders, 1, header("a", "b"))),
  "1,000 times 103": joined(
    settings(),
    repeated(1000, frame(TYPE.headers, FLAG.endHeaders, 1, header(":status", "103"))),
  ),
  "HEADERS that never end": joined(
    settings(),
    frame(TYPE.headers, 0, 1, header(":status", "200")),
    repeated(2000, frame(TYPE.continuation, 0, 1, header("a", "b".repeat(100)))),
  ),
  "HEADERS with 1,000 headers": joined(
    settings(),
    frame(TYPE.headers, FLAG.endHeaders, 1, joined(header(":status", "200"), repeated(1000, header("a", "b")))),
  ),
  "PUSH_PROMISE": joined(
    RESPONSE,
    frame(TYPE.pushPromise, FLAG.endHeaders, 1, joined(uint32(2), callHeaders("/"))),
    frame(TYPE.reset, 0, 2, zeros(3)),
  ),
  "GOAWAY with an error": joined(RESPONSE, frame(TYPE.goaway, 0, 0, joined(uint32(0), uint32(11)))),
  "PING acknowledged that was not sent": joined(RESPONSE, frame(TYPE.ping, FLAG.ack, 0, zeros(8))),
  "GOAWAY of three bytes": joined(RESPONSE, frame(TYPE.goaway, 0, 0, zeros(3))),
  "PING flood": joined(RESPONSE, repeated(20_000, frame(TYPE.ping, 0, 0, zeros(8)))),
  "a status that is no number": joined(
    settings(),
    frame(
      TYPE.headers,
      FLAG.endHeaders | FLAG.endStream,
      1,
      joined(header(":status", "200"), header("grpc-status", "%"), header("grpc-message", "%%%")),
    ),
  ),
  "rounds without end, taking no request": joined(
    settings([4, 0]),
    RESPONSE,
    repeated(10_000, ROUND),
  ),
  "a message of four gigabytes": joined(
    RESPONSE,
    frame(TYPE.data, 0, 1, Uint8Array.of(0, 255, 255, 255, 255)),
  ),
  "an invalid message": joined(RESPONSE, frame(TYPE.data, 0, 1, framesOf([zeros(10).fill(255)]))),
};

/** The messages about servers that would exhaust memory, and about those that say why. */
const REASONS: Readonly<Record<string, string>> = {
  "RST_STREAM with an error": "the server reset the call: INTERNAL_ERROR",
  "GOAWAY with an error": "the server closed the connection: ENHANCE_YOUR_CALM",
  "PING flood": "the server floods with PING or SETTINGS frames",
  "rounds without end, taking no request": "the server does not read requests",
};

/** A listener that answers its first connection with these bytes, and forwards later ones to a server at that port. */
function startHostileServer(bytes: Uint8Array, goodPort: number) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted: Deno.Conn[] = [];
  const ended = (async () => {
    for await (const client of listener) {
      accepted.push(client);
      if (accepted.length === 1) {
        await client.read(new Uint8Array(4096));
        await rawConnection(client).send(bytes);
        // Incomplete answers stay incomplete.
        if (bytes.length < 10_000) await client.closeWrite().catch(() => {});
        continue;
      }
      const good = await Deno.connect({ hostname: "127.0.0.1", port: goodPort });
      accepted.push(good);
      void client.readable.pipeTo(good.writable).catch(() => {});
      void good.readable.pipeTo(client.writable).catch(() => {});
    }
  })();
  return {
    port: (listener.addr as Deno.NetAddr).port,
    async close() {
      listener.close();
      for (const connection of accepted) rawConnection(connection).close();
      await ended;
    },
  };
}

for (const [name, bytes] of Object.entries(BROKEN)) {
  Deno.test(`after a server that sends ${name}, the next one is watched`, async () => {
    await withServer([service("default/web")], async ({ port, store }) => {
      const server = startHostileServer(bytes, port);
      const clock = createFakeClock();
      const options = { liveness: { probeAfterMs: 500, answerMs: 2000 } };
      await withSource(
        server.port,
        async (sink, logged) => {
          await sink.until("set Service default/web");
          store.set(service("default/new"));
          await sink.until("set Service default/new");
          const failures = logged.filter((line) => line.includes("cannot watch the server"));
          assert.equal(failures.length, 1, logged.join(""));
          assert.ok(failures[0]!.includes(REASONS[name] ?? ""), failures[0]);
        },
        options,
        clock,
      );
      await server.close();
    });
  });
}

Deno.test("servers that send random frames only lose their connections", async () => {
  const random = seededBelow(1);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const answers = (async () => {
    for await (const client of listener) {
      await client.read(new Uint8Array(4096));
      const hostile = rawConnection(client);
      await hostile.send(joined(RESPONSE, ...randomFrames(random, "server")));
      hostile.close();
    }
  })();
  const address = { kind: "tcp", host: "127.0.0.1", port: (listener.addr as Deno.NetAddr).port } as const;
  for (let i = 0; i < runs(100).numRuns; i++) {
    const watching = call({
      address,
      tls: undefined,
      method: METHODS.global,
      request: WATCH_REQUEST.encode({}),
      onMessage: () => true,
      clock: systemClock,
      liveness: { probeAfterMs: 10_000, answerMs: 10_000 },
      signal: new AbortController().signal,
    });
    await assert.rejects(watching);
  }
  listener.close();
  await answers;
});
