/** Every call that the server ends or refuses says why. */
import assert from "node:assert/strict";
import { connect as connectHttp2, type OutgoingHttpHeaders } from "node:http2";
import { framesOf, STATUS } from "../../../../kpng/transport/grpc.ts";
import { METHODS, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { sleep, systemClock } from "../../../../platform/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { connectKpngClient } from "../../../fakes/kpng.ts";
import { callHeaders, connectRaw, FLAG, frame, joined, settings, TYPE } from "../../../fakes/raw_http2.ts";
import { manyServices, withServer } from "./served.ts";

const ASK = framesOf([WATCH_REQUEST.encode({})]);
const CALL = { ":method": "POST", ":path": METHODS.global, "content-type": "application/grpc", te: "trailers" };

interface Ended {
  readonly http: unknown;
  readonly status: unknown;
  readonly encodings: unknown;
}

/** Makes a call and resolves at its end. */
async function endOf(port: number, headers: OutgoingHttpHeaders, body: Uint8Array = ASK, half = false): Promise<Ended> {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  const stream = session.request({ ...CALL, ...headers });
  const received: Record<string, unknown> = {};
  const ended = Promise.withResolvers<void>();
  stream.on("response", (headers) => Object.assign(received, headers));
  stream.on("trailers", (headers) => Object.assign(received, headers));
  stream.on("close", ended.resolve);
  stream.resume();
  stream.write(body);
  if (half) stream.end();
  await ended.promise;
  session.destroy();
  return {
    http: received[":status"],
    status: Number(received["grpc-status"]),
    encodings: received["grpc-accept-encoding"],
  };
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
  let frames: Promise<readonly { readonly type: number; readonly flags: number; readonly stream: number }[]>;
  await withServer([service("default/web")], async ({ port, serving }) => {
    const raw = await connectRaw(
      port,
      frame(TYPE.headers, FLAG.endHeaders, 1, callHeaders(METHODS.global)),
      frame(TYPE.data, 0, 1, ASK),
    );
    frames = raw.frames();
    const other = connectKpngClient(port, METHODS.local);
    await other.round(WATCH_REQUEST.encode({}));
    while (serving.count("rounds global") === 0) await sleep(systemClock, 5);
    await serving.close();
    assert.equal(await other.status, STATUS.UNAVAILABLE);
    other.close();
  });
  const end = (await frames!).filter(({ type }) => type === TYPE.goaway || type === TYPE.headers).slice(1);
  assert.deepEqual(end.map(({ type, flags, stream }) => ({ type, flags, stream })), [
    { type: TYPE.goaway, flags: 0, stream: 0 },
    { type: TYPE.headers, flags: FLAG.endHeaders | FLAG.endStream, stream: 1 },
  ]);
});

Deno.test("a shutdown does not wait for clients that do not read", async () => {
  await withServer(manyServices(2000), async ({ port, serving }) => {
    const raw = await connectRaw(
      port,
      settings([4, 10]),
      joined(frame(TYPE.headers, FLAG.endHeaders, 1, callHeaders(METHODS.global)), frame(TYPE.data, 0, 1, ASK)),
    );
    while (serving.watchers() === 0) await sleep(systemClock, 5);
    await serving.close();
    raw.close();
  }, { limits: { lingerMs: 100 } });
});

Deno.test("a reader that stalls gets ENHANCE_YOUR_CALM, which clients take as RESOURCE_EXHAUSTED", async () => {
  await withServer(manyServices(2000), async ({ port, serving }) => {
    const raw = await connectRaw(
      port,
      settings([4, 10]),
      joined(frame(TYPE.headers, FLAG.endHeaders, 1, callHeaders(METHODS.global)), frame(TYPE.data, 0, 1, ASK)),
    );
    const frames = raw.frames();
    while (serving.closed("no call") === 0) await sleep(systemClock, 5);
    const reset = (await frames).find(({ type }) => type === TYPE.reset);
    assert.deepEqual([...reset!.payload], [0, 0, 0, 11]);
    raw.close();
  }, { limits: { stallMs: 50, lingerMs: 50, idleMs: 100 } });
});

Deno.test("a reader that stalled and reads again gets RESOURCE_EXHAUSTED after what was written", async () => {
  await withServer(manyServices(5000), async ({ port, serving }) => {
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const stream = session.request(CALL);
    const status = Promise.withResolvers<unknown>();
    stream.on("trailers", (headers) => status.resolve(headers["grpc-status"]));
    stream.pause();
    stream.write(ASK);
    while (serving.count("slow readers") === 0) await sleep(systemClock, 5);
    stream.resume();
    assert.equal(await status.promise, String(STATUS.RESOURCE_EXHAUSTED));
    session.destroy();
  }, { limits: { stallMs: 100, lingerMs: 60_000 } });
});
