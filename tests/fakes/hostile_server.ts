/** Servers of gRPC that violate or exhaust HTTP/2. */
import { framesOf } from "../../kpng/transport/grpc.ts";
import { SYNC } from "../../kpng/views/operations.ts";
import { callHeaders, FLAG, frame, header, joined, rawConnection, settings, TYPE, uint32, zeros } from "./raw_http2.ts";

/** The beginning of a valid answer to the first call of a connection. */
export const RESPONSE = joined(
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

/** Answers that violate or exhaust HTTP/2, or are none, by what they contain. */
export const BROKEN_ANSWERS: Readonly<Record<string, Uint8Array>> = {
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

/** A listener, and what to connect to where it is not hostile. */
export interface HostilePlace {
  readonly listener: Deno.Listener<Deno.Conn>;
  connect(): Promise<Deno.Conn>;
}

/** Answers the first connection to a listener with these bytes, and forwards later ones. */
export function startHostileServer(bytes: Uint8Array, { listener, connect }: HostilePlace): { close(): Promise<void> } {
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
      const good = await connect();
      accepted.push(good);
      void client.readable.pipeTo(good.writable).catch(() => {});
      void good.readable.pipeTo(client.writable).catch(() => {});
    }
  })();
  return {
    async close() {
      listener.close();
      for (const connection of accepted) rawConnection(connection).close();
      await ended;
    },
  };
}
