/** Clients that violate or exhaust HTTP/2: none of them ends the server, and well-behaved watchers are served. */
import assert from "node:assert/strict";
import { METHODS, OP_ITEM, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import type { TlsFiles } from "../../../../kpng/address/mod.ts";
import type { ClosureReason } from "../../../../kpng/server/metrics.ts";
import { runs } from "../../../property/runs.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { connectKpngClient } from "../../../fakes/kpng.ts";
import {
  callFrames,
  callHeaders,
  connectRaw,
  FLAG,
  frame,
  goawayCode,
  header,
  joined,
  type RawConnection,
  settings,
  TYPE,
  uint32,
  zeros,
} from "../../../fakes/raw_http2.ts";
import { seededBelow } from "../../../fakes/random.ts";
import { randomFrames } from "../../../fakes/random_frames.ts";
import { passing, until } from "../../../fakes/wait.ts";
import { ONE_THREAD, type Served, withServer } from "./served.ts";

const ENHANCE_YOUR_CALM = 11;
const CANCEL = uint32(8);
const OBJECTS = [service("default/web")];
const CALL = callFrames(1, METHODS.global);

/** Whether a well-behaved watcher receives everything, and then a change. */
async function isServed({ port, store }: Served): Promise<boolean> {
  const client = connectKpngClient(port, METHODS.global);
  const request = WATCH_REQUEST.encode({});
  const isComplete = async () => OP_ITEM.decode((await client.round(request)).at(-1)!).sync !== undefined;
  const hasAll = await isComplete();
  const change = isComplete();
  store.set(service("default/web", { affinitySeconds: store.revision() }));
  const hasChange = await change;
  client.close();
  return hasAll && hasChange;
}

function many(count: number, make: (stream: number) => Uint8Array): Uint8Array {
  return joined(...Array.from({ length: count }, (_, i) => make(1 + 2 * i)));
}

const BROKEN: Readonly<Record<string, Uint8Array>> = {
  "RST_STREAM of three bytes": frame(TYPE.reset, 0, 1, zeros(3)),
  "RST_STREAM of five bytes": frame(TYPE.reset, 0, 1, zeros(5)),
  "RST_STREAM of stream 0": frame(TYPE.reset, 0, 0, CANCEL),
  "RST_STREAM of a stream that was never opened": frame(TYPE.reset, 0, 99, CANCEL),
  "PING acknowledged that was not sent": frame(TYPE.ping, FLAG.ack, 0, zeros(8)),
  "HEADERS after a GOAWAY": joined(frame(TYPE.goaway, 0, 0, zeros(8)), callFrames(3, METHODS.global)),
  "PING of seven bytes": frame(TYPE.ping, 0, 0, zeros(7)),
  "PING of a stream": frame(TYPE.ping, 0, 1, zeros(8)),
  "SETTINGS of five bytes": frame(TYPE.settings, 0, 0, zeros(5)),
  "SETTINGS of a stream": frame(TYPE.settings, 0, 1),
  "SETTINGS with a window that is too large": settings([4, 0xffffffff]),
  "more acknowledged SETTINGS than were sent": joined(
    ...Array.from({ length: 9 }, () => frame(TYPE.settings, FLAG.ack, 0)),
  ),
  "WINDOW_UPDATE of three bytes": frame(TYPE.windowUpdate, 0, 1, zeros(3)),
  "WINDOW_UPDATE by nothing": frame(TYPE.windowUpdate, 0, 1, uint32(0)),
  "WINDOW_UPDATE over the largest window": joined(
    frame(TYPE.windowUpdate, 0, 1, uint32(0x7fffffff)),
    frame(TYPE.windowUpdate, 0, 1, uint32(0x7fffffff)),
  ),
  "PRIORITY of four bytes": frame(TYPE.priority, 0, 1, zeros(4)),
  "DATA of stream 0": frame(TYPE.data, 0, 0, zeros(1)),
  "DATA of a stream that was never opened": frame(TYPE.data, 0, 77, zeros(1)),
  "DATA with more padding than bytes": frame(TYPE.data, FLAG.padded, 1, Uint8Array.of(255, 0)),
  "HEADERS of stream 0": frame(TYPE.headers, FLAG.endHeaders, 0, callHeaders(METHODS.global)),
  "HEADERS of a stream of the server's": frame(TYPE.headers, FLAG.endHeaders, 2, callHeaders(METHODS.global)),
  "HEADERS that are no HPACK": frame(TYPE.headers, FLAG.endHeaders, 3, zeros(20).fill(255)),
  "HEADERS without a path": frame(TYPE.headers, FLAG.endHeaders, 3, header(":method", "POST")),
  "HEADERS of a HEAD request": frame(
    TYPE.headers,
    FLAG.endHeaders | FLAG.endStream,
    3,
    joined(
      header(":method", "HEAD"),
      header(":scheme", "http"),
      header(":path", METHODS.global),
      header(":authority", "localhost"),
    ),
  ),
  "HEADERS with 300 cookies": frame(
    TYPE.headers,
    FLAG.endHeaders,
    3,
    callHeaders(METHODS.global, ...Array.from({ length: 300 }, () => header("cookie", "a=b"))),
  ),
  "HEADERS without an end, and something else": joined(
    frame(TYPE.headers, 0, 3, callHeaders(METHODS.global)),
    frame(TYPE.ping, 0, 0, zeros(8)),
  ),
  "HEADERS that never end": joined(
    frame(TYPE.headers, 0, 3, callHeaders(METHODS.global)),
    ...Array.from({ length: 1000 }, () => frame(TYPE.continuation, 0, 3, header("a", "b".repeat(100)))),
  ),
  "CONTINUATION of nothing": frame(TYPE.continuation, FLAG.endHeaders, 1),
  "PUSH_PROMISE from a client": frame(TYPE.pushPromise, FLAG.endHeaders, 1, joined(uint32(2), callHeaders("/"))),
  "GOAWAY of three bytes": frame(TYPE.goaway, 0, 0, zeros(3)),
  "GOAWAY with an error": frame(TYPE.goaway, 0, 0, joined(uint32(0), uint32(11))),
  "a frame of 16 MB": joined(Uint8Array.of(255, 255, 255), zeros(70_000)),
};

for (const [name, bytes] of Object.entries(BROKEN)) {
  Deno.test(`${name}, in the packet of a call and after it, ends at most that connection`, async () => {
    await withServer(OBJECTS, async (served) => {
      const hostile = [await connectRaw(served.port, CALL, bytes), await connectRaw(served.port, CALL)];
      await hostile[1]!.send(bytes);
      assert.ok(await isServed(served));
      for (const connection of hostile) connection.close();
      await until(() => served.serving.watchers() === 0);
    });
  });
}

Deno.test("5 connections that open and reset 2,000 streams each get ENHANCE_YOUR_CALM", async () => {
  await withServer(OBJECTS, async (served) => {
    const attack = many(
      2000,
      (stream) => joined(callFrames(stream, METHODS.global), frame(TYPE.reset, 0, stream, CANCEL)),
    );
    const codes = await Promise.all(Array.from({ length: 5 }, async () => {
      const hostile = await connectRaw(served.port);
      const frames = hostile.frames();
      await hostile.send(attack);
      const code = goawayCode(await frames);
      hostile.close();
      return code;
    }));
    assert.ok(codes.every((code) => code === ENHANCE_YOUR_CALM || code === undefined), codes.join());
    assert.equal(served.serving.closed("streams opened too fast"), 5);
    assert.ok(await isServed(served));
    await until(() => served.serving.watchers() === 0);
  }, { clock: createFakeClock() });
});

const FLOODS = {
  "streams reset too fast": many(
    11,
    (stream) => joined(callFrames(stream, METHODS.global), frame(TYPE.reset, 0, stream, CANCEL)),
  ),
  "PING or SETTINGS flood": joined(...Array.from({ length: 11 }, () => frame(TYPE.ping, 0, 0, zeros(8)))),
  "too many frames": joined(...Array.from({ length: 101 }, () => frame(TYPE.windowUpdate, 0, 0, uint32(1)))),
} as const;

for (const [reason, bytes] of Object.entries(FLOODS) as [keyof typeof FLOODS, Uint8Array][]) {
  Deno.test(`${reason}: the connection gets ENHANCE_YOUR_CALM and is counted`, async () => {
    await withServer(OBJECTS, async (served) => {
      const hostile = await connectRaw(served.port);
      const frames = hostile.frames();
      await hostile.send(bytes);
      assert.equal(goawayCode(await frames), ENHANCE_YOUR_CALM);
      hostile.close();
      assert.equal(served.serving.closed(reason), 1);
      assert.ok(await isServed(served));
    }, { limits: { resetsPerWindow: 10, controlFramesPerWindow: 10, framesPerWindow: 100 } });
  });
}

Deno.test("a connection without a TLS handshake, or without SETTINGS after it, is closed and counted", async () => {
  const authority = await createCertificateAuthority("authority");
  const issued = await authority.issue("server");
  const closedFor = async (reason: ClosureReason, tls?: TlsFiles) => {
    const clock = createFakeClock();
    await withServer(OBJECTS, async ({ port, serving }) => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      await until(() => serving.connections() === 1);
      await passing(clock, () => serving.closed(reason) === 1);
      // Without TLS, the server's SETTINGS come first, and a GOAWAY.
      while (await connection.read(new Uint8Array(4096)).catch(() => null) !== null);
      connection.close();
      await until(() => serving.connections() === 0);
    }, { tls, clock, limits: { handshakeMs: 1000 } });
  };
  await closedFor("no TLS handshake", { ca: authority.cert, crt: issued.cert, key: issued.key });
  await closedFor("no HTTP/2 settings");
});

Deno.test("at the limit of an address, the oldest connection without a call is closed; those with one stay", async () => {
  await withServer(OBJECTS, async (served) => {
    const { port, serving } = served;
    const calling = await connectRaw(port, CALL);
    await until(() => serving.watchers() === 1);
    const idle: RawConnection[] = [];
    for (let i = 0; i < 2; i++) {
      idle.push(await connectRaw(port));
      await until(() => serving.connections() === 2 + i);
    }
    const second = await connectRaw(port, callFrames(1, METHODS.global));
    await idle[0]!.frames();
    await until(() => serving.watchers() === 2);
    const third = await connectRaw(port, callFrames(1, METHODS.global));
    await idle[1]!.frames();
    await until(() => serving.watchers() === 3);
    const refused = await connectRaw(port, callFrames(1, METHODS.global));
    await refused.frames();
    assert.equal(serving.watchers(), 3);
    assert.equal(serving.closed("too many connections from one address"), 3);
    for (const connection of [calling, second, third, refused, ...idle]) connection.close();
    await until(() => serving.connections() === 0);
    assert.ok(await isServed(served));
  }, { limits: { connectionsPerAddress: 3 }, workers: ONE_THREAD });
});

Deno.test("at the limit of the server, the oldest open connection without a call is closed", async () => {
  await withServer(OBJECTS, async ({ port, serving }) => {
    const closures = () => serving.closed("too many connections");
    const open = async (count: number, ...frames: readonly Uint8Array[]) => {
      const connection = await connectRaw(port, ...frames);
      await until(() => serving.connections() === count);
      return connection;
    };
    const left = await open(1), first = await open(2);
    left.close();
    await until(() => serving.connections() === 1);
    const called = await open(2, CALL);
    await until(() => serving.watchers() === 1);
    const second = await open(3);
    const others: RawConnection[] = [];
    // One that has ended, or that has a call, makes no room.
    others.push(await connectRaw(port));
    await until(() => closures() === 1);
    await first.frames();
    others.push(await connectRaw(port, callFrames(1, METHODS.global)));
    await until(() => closures() === 2);
    await second.frames();
    await until(() => serving.watchers() === 2);
    // A connection whose call has ended is the newest one without a call.
    await called.send(frame(TYPE.reset, 0, 1, CANCEL));
    await until(() => serving.watchers() === 1);
    const last = await connectRaw(port, callFrames(1, METHODS.global));
    await until(() => closures() === 3);
    await others[0]!.frames();
    await until(() => serving.watchers() === 2);
    const newest = await connectRaw(port, callFrames(1, METHODS.global));
    await until(() => closures() === 4);
    await called.frames();
    await until(() => serving.watchers() === 3);
    assert.equal(serving.connections(), 3);
    const refused = await connectRaw(port, callFrames(1, METHODS.global));
    await refused.frames();
    assert.deepEqual([closures(), serving.watchers()], [5, 3]);
    for (const connection of [last, newest, refused, ...others]) connection.close();
    await until(() => serving.connections() === 0);
  }, { limits: { connections: 3 }, workers: ONE_THREAD });
});

Deno.test("a connection that violates HTTP/2 and does not read is closed", async () => {
  const clock = createFakeClock();
  // 5 MB, in few objects: socket buffers hold 4.
  const externalIPs = Array.from({ length: 600 }, (_, i) => `192.0.${2 + (i >> 8)}.${i & 255}`);
  const objects = Array.from({ length: 700 }, (_, i) => service(`default/s${i}`, { externalIPs }));
  await withServer(objects, async (served) => {
    const largest = uint32(0x7fff0000 - 65_535);
    const hostile = await connectRaw(
      served.port,
      settings([4, 0x7fffffff]),
      frame(TYPE.windowUpdate, 0, 0, largest),
      CALL,
    );
    await until(() => served.serving.watchers() === 1);
    assert.ok(await isServed(served));
    assert.equal(served.serving.count("rounds global"), 2, "not everything was written to the hostile one");
    await hostile.send(frame(TYPE.reset, 0, 1, zeros(3)));
    await passing(clock, () => served.serving.watchers() === 0 && served.serving.connections() === 0);
    hostile.close();
    assert.ok(await isServed(served));
  }, { clock, limits: { probeAfterMs: 4000, answerMs: 300 } });
});

Deno.test("random frames only end their connections", async () => {
  await withServer(OBJECTS, async (served) => {
    const random = seededBelow(1);
    for (let i = 0; i < runs(60).numRuns; i++) {
      const frames = Array.from({ length: random(40) }, () => {
        const payloads = [zeros(0), callHeaders(METHODS.global), zeros(4), zeros(5), zeros(8), zeros(random(60))];
        const payload = payloads[random(payloads.length)]!.map((byte) => random(8) === 0 ? random(256) : byte);
        return frame(
          random(12),
          [0, 1, 4, 5, random(256)][random(5)]!,
          [0, 1, 1, 3, 5, random(2 ** 32)][random(6)]!,
          payload,
        );
      });
      const hostile = await connectRaw(served.port, ...random(2) === 0 ? [CALL] : [], ...frames);
      if (random(2) === 0) await hostile.send(...frames);
      hostile.close();
    }
    assert.ok(await isServed(served));
    await until(() => served.serving.connections() === 0 && served.serving.watchers() === 0);
  });
});

Deno.test("random well-formed frames only end their connections", async () => {
  await withServer(OBJECTS, async (served) => {
    const random = seededBelow(2);
    for (let i = 0; i < runs(100).numRuns; i++) {
      const frames = randomFrames(random, "client");
      const hostile = await connectRaw(served.port, ...frames);
      if (random(2) === 0) await hostile.send(...frames);
      hostile.close();
    }
    assert.ok(await isServed(served));
    await until(() => served.serving.connections() === 0 && served.serving.watchers() === 0);
  });
});
