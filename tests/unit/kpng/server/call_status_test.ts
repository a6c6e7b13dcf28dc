/** Every call that the server ends or refuses says why. */
import assert from "node:assert/strict";
import type { OutgoingHttpHeaders } from "node:http2";
import { readCallHeaders } from "../../../../kpng/server/call.ts";
import { framesOf, STATUS } from "../../../../kpng/transport/grpc.ts";
import { METHODS, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { connectKpngClient, openGrpcCall } from "../../../fakes/kpng.ts";
import {
  callHeaders,
  connectRaw,
  FLAG,
  frame,
  joined,
  type RawConnection,
  settings,
  TYPE,
} from "../../../fakes/raw_http2.ts";
import { passing, passingDuring, until } from "../../../fakes/wait.ts";
import { manyServices, withServer } from "./served.ts";

const ASK = framesOf([WATCH_REQUEST.encode({})]);
interface Ended {
  readonly http: unknown;
  readonly status: unknown;
  readonly encodings: unknown;
}

/** Makes a call and resolves at its end. */
async function endOf(port: number, headers: OutgoingHttpHeaders, body: Uint8Array = ASK, half = false): Promise<Ended> {
  const { session, stream, status, received } = openGrpcCall(port, METHODS.global, { headers });
  stream.resume();
  stream.write(body);
  if (half) stream.end();
  // Like gRPC clients: the server waits for their end.
  void status.then(() => stream.end());
  const ended = await received;
  session.destroy();
  return { http: ended[":status"], status: Number(ended["grpc-status"]), encodings: ended["grpc-accept-encoding"] };
}

const ENDS: readonly (readonly [name: string, headers: OutgoingHttpHeaders, http: number, status: number])[] = [
  ["an unknown method", { ":path": "/localv1.Sets/Drop" }, 200, STATUS.UNIMPLEMENTED],
  ["an unknown service", { ":path": "/localv2.Sets/Watch" }, 200, STATUS.UNIMPLEMENTED],
  ["JSON", { "content-type": "application/json" }, 415, STATUS.INVALID_ARGUMENT],
  ["gRPC's JSON", { "content-type": "application/grpc+json" }, 415, STATUS.INVALID_ARGUMENT],
  ["gRPC-Web", { "content-type": "application/grpc-web" }, 415, STATUS.INVALID_ARGUMENT],
  ["no content type", { "content-type": undefined }, 415, STATUS.INVALID_ARGUMENT],
  ["PUT", { ":method": "PUT" }, 405, STATUS.INTERNAL],
  ["an unknown compression", { "grpc-encoding": "gzip" }, 200, STATUS.UNIMPLEMENTED],
  ["a broken timeout", { "grpc-timeout": "5 s" }, 400, STATUS.INTERNAL],
  ["a timeout of nine digits", { "grpc-timeout": "100000000S" }, 400, STATUS.INTERNAL],
  ["a deadline that passes", { "grpc-timeout": "20m" }, 200, STATUS.DEADLINE_EXCEEDED],
  ["a deadline that has passed", { "grpc-timeout": "0n" }, 200, STATUS.DEADLINE_EXCEEDED],
];

for (const [name, headers, http, status] of ENDS) {
  Deno.test(`a call with ${name} ends with HTTP status ${http} and gRPC status ${status}`, async () => {
    await withServer([], async ({ port }) => {
      assert.deepEqual(await endOf(port, headers), { http, status, encodings: "identity" });
    });
  });
}

const REQUESTS: readonly (readonly [name: string, body: Uint8Array, status: number])[] = [
  ["ends after its request", ASK, STATUS.OK],
  ["ends in the middle of a request", ASK.subarray(0, 3), STATUS.INVALID_ARGUMENT],
  ["sends a group without an end", framesOf([Uint8Array.of(0x2b)]), STATUS.INVALID_ARGUMENT],
  ["sends a compressed request", Uint8Array.of(1, 0, 0, 0, 0), STATUS.UNIMPLEMENTED],
];

for (const [name, body, status] of REQUESTS) {
  Deno.test(`a call that ${name} ends with gRPC status ${status}`, async () => {
    await withServer([], async ({ port }) => {
      assert.deepEqual(await endOf(port, {}, body, true), { http: 200, status, encodings: "identity" });
    });
  });
}

for (const type of ["application/grpc", "application/grpc+proto", "Application/GRPC; charset=utf-8"]) {
  Deno.test(`the content type ${type} and an uncompressed call without a deadline are served`, async () => {
    await withServer([], async ({ port }) => {
      const headers = { "content-type": type, "grpc-encoding": "identity", "grpc-timeout": "99999999H" };
      assert.equal((await endOf(port, headers, ASK, true)).status, STATUS.OK);
    });
  });
}

Deno.test("at shutdown, watchers get GOAWAY and then UNAVAILABLE before their connection closes", async () => {
  await withServer([service("default/web")], async ({ port, serving }) => {
    const raw = await connectRaw(
      port,
      frame(TYPE.headers, FLAG.endHeaders, 1, callHeaders(METHODS.global)),
      frame(TYPE.data, 0, 1, ASK),
    );
    const end = FLAG.endHeaders | FLAG.endStream;
    const frames = raw.frames(({ type, flags }) => type === TYPE.headers && flags === end);
    const other = connectKpngClient(port, METHODS.local);
    await other.round(WATCH_REQUEST.encode({}));
    await until(() => serving.count("rounds global") > 0);
    const closed = serving.close();
    assert.equal(await other.status, STATUS.UNAVAILABLE);
    const received = (await frames).filter(({ type }) => type === TYPE.goaway || type === TYPE.headers).slice(1);
    assert.deepEqual(received.map(({ type, flags, stream }) => ({ type, flags, stream })), [
      { type: TYPE.goaway, flags: 0, stream: 0 },
      { type: TYPE.headers, flags: end, stream: 1 },
    ]);
    other.close();
    raw.close();
    await closed;
  });
});

/** A call whose client has a window of ten bytes. */
function callWithoutWindow(port: number): Promise<RawConnection> {
  return connectRaw(
    port,
    settings([4, 10]),
    joined(frame(TYPE.headers, FLAG.endHeaders, 1, callHeaders(METHODS.global)), frame(TYPE.data, 0, 1, ASK)),
  );
}

Deno.test("a shutdown does not wait for clients that do not read", async () => {
  const clock = createFakeClock();
  await withServer(manyServices(1000), async ({ port, serving }) => {
    const raw = await callWithoutWindow(port);
    await until(() => serving.watchers() === 1);
    await passingDuring(clock, serving.close());
    raw.close();
  }, { clock });
});

Deno.test("a reader that stalls gets ENHANCE_YOUR_CALM, which clients take as RESOURCE_EXHAUSTED", async () => {
  const clock = createFakeClock();
  await withServer(manyServices(1000), async ({ port, serving }) => {
    const raw = await callWithoutWindow(port);
    const frames = raw.frames();
    await until(() => serving.count("bytes global") > 0);
    await passing(clock, () => serving.closed("no call") === 1);
    const reset = (await frames).find(({ type }) => type === TYPE.reset);
    assert.deepEqual([...reset!.payload], [0, 0, 0, 11]);
    raw.close();
  }, { clock, limits: { stallMs: 500, lingerMs: 500, idleMs: 1000 } });
});

Deno.test("a reader that stalled and reads again gets RESOURCE_EXHAUSTED after what was written", async () => {
  const clock = createFakeClock();
  await withServer(manyServices(1000), async ({ port, serving }) => {
    const { session, stream, status } = openGrpcCall(port, METHODS.global);
    stream.pause();
    stream.write(ASK);
    await until(() => serving.count("bytes global") > 0);
    await passing(clock, () => serving.count("slow readers") === 1);
    stream.resume();
    assert.equal(await status, STATUS.RESOURCE_EXHAUSTED);
    session.destroy();
  }, { clock, limits: { stallMs: 1000, lingerMs: 60_000 } });
});

Deno.test("a deadline is read in each of gRPC's units", () => {
  const headers = { ":method": "POST", ":path": METHODS.global, "content-type": "application/grpc" };
  const cases = { "2H": 7_200_000, "3M": 180_000, "4S": 4_000, "5m": 5, "6u": 0.006, "7n": 7e-6, "": undefined };
  for (const [text, timeoutMs] of Object.entries(cases)) {
    const read = readCallHeaders({ ...headers, ...text === "" ? {} : { "grpc-timeout": text } });
    assert.deepEqual(read, { path: METHODS.global, timeoutMs }, text);
  }
});
