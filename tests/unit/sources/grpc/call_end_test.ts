/** The ends of a call: each has its own reason, and a server that leaves is no failure. */
import assert from "node:assert/strict";
import type { ServerHttp2Stream } from "node:http2";
import { framesOf } from "../../../../kpng/transport/grpc.ts";
import type { WireAddress } from "../../../../kpng/address/mod.ts";
import { LIVENESS } from "../../../../kpng/transport/peers.ts";
import { METHODS } from "../../../../kpng/messages/messages.ts";
import { RESET, SYNC } from "../../../../kpng/views/operations.ts";
import { type Clock, systemClock } from "../../../../platform/clock.ts";
import { ServerLeavingError } from "../../../../kpng/client/mod.ts";
import type { ReportLink } from "../../../../core/objects/source.ts";
import { call } from "../../../../sources/grpc/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { startHttp2Server } from "../../../fakes/http2_server.ts";
import { inTime, until } from "../../../fakes/wait.ts";
import { withSource } from "./grpc_source.ts";

const ANSWER = { ":status": 200, "content-type": "application/grpc" };

/** Runs a test against a server that answers the call of that number, from 0, with `answer`. */
async function withAnswer(
  answer: (stream: ServerHttp2Stream, call: number, headers: Readonly<Record<string, unknown>>) => void,
  test: (address: WireAddress & { readonly kind: "tcp" }) => Promise<void>,
  path?: string,
): Promise<void> {
  let calls = 0;
  const server = await startHttp2Server(path ?? 0, (stream, headers) => {
    stream.resume();
    answer(stream, calls++, headers);
  });
  try {
    await test({ kind: "tcp", host: "127.0.0.1", port: server.port });
  } finally {
    await server.close();
  }
}

function callOnce(address: WireAddress, { clock = systemClock, signal }: {
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
} = {}): Promise<never> {
  return call({
    address,
    tls: undefined,
    method: METHODS.global,
    request: new Uint8Array(),
    onMessage: () => false,
    clock,
    liveness: LIVENESS,
    signal: signal ?? new AbortController().signal,
  });
}

const ENDS: readonly (readonly [name: string, answer: (stream: ServerHttp2Stream) => void, reason: string])[] = [
  ["a status in the trailers", (stream) => {
    stream.respond(ANSWER, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "14", "grpc-message": "going down" }));
    stream.end();
  }, "the server answered UNAVAILABLE: going down"],
  ["a status without an answer", (stream) => {
    stream.respond({ ...ANSWER, "grpc-status": "8", "grpc-message": "100%25 full" }, { endStream: true });
  }, "the server answered RESOURCE_EXHAUSTED: 100% full"],
  ["a status that gRPC does not have", (stream) => {
    stream.respond({ ...ANSWER, "grpc-status": "99" }, { endStream: true });
  }, "the server answered status 99"],
  ["the end without an error", (stream) => {
    stream.respond(ANSWER, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end();
  }, "the server ended the call (OK)"],
  ["the HTTP status of a proxy", (stream) => {
    stream.respond({ ":status": 503, "content-type": "text/html" }, { endStream: true });
  }, "the server answered with HTTP status 503 (UNAVAILABLE) instead of a gRPC status"],
  ["another content type", (stream) => {
    stream.respond({ ":status": 200, "content-type": "text/html" }, { endStream: true });
  }, "the server answered with content type text/html, so it is not a gRPC server"],
  ["a GOAWAY with an error", (stream) => {
    stream.session!.goaway(11, 0, new TextEncoder().encode("too_many_pings"));
  }, "the server closed the connection: ENHANCE_YOUR_CALM (too_many_pings)"],
];

for (const [name, answer, reason] of ENDS) {
  Deno.test(`${name} is a reason of its own`, async () => {
    await withAnswer(answer, async (address) => {
      await assert.rejects(callOnce(address), (error: Error) => {
        assert.equal(error.message, reason);
        assert.ok(!(error instanceof ServerLeavingError));
        return true;
      });
    });
  });
}

for (const how of ["by the server", "by the client"]) {
  Deno.test(`a call that is ended ${how} leaves neither its connection nor a timer`, async () => {
    const clock = createFakeClock(), stop = new AbortController(), closed = Promise.withResolvers<void>();
    await withAnswer((stream) => {
      stream.session!.once("close", closed.resolve);
      stream.on("error", () => {});
      if (how === "by the client") stop.abort(new Error("stopped"));
      else stream.respond({ ...ANSWER, "grpc-status": "14" }, { endStream: true });
    }, async (address) => {
      const ending = callOnce(address, { clock, signal: stop.signal });
      await assert.rejects(ending, how === "by the client" ? /^Error: stopped$/ : /UNAVAILABLE/);
      await inTime("the connection is closed", closed.promise);
      await until(() => clock.pending().length === 0);
    });
  });
}

Deno.test("a GOAWAY without an error asks for a new connection", async () => {
  await withAnswer((stream) => stream.session!.goaway(0, 0, new TextEncoder().encode("max_age\n")), async (address) => {
    await assert.rejects(callOnce(address), new ServerLeavingError("the server sent GOAWAY (max_age?)"));
  });
});

Deno.test("a server that leaves after a round is watched again without a failure", async () => {
  const answer = (stream: ServerHttp2Stream, call: number) => {
    stream.respond(ANSWER);
    stream.write(framesOf([RESET, SYNC]), () => {
      if (call < 3) stream.once("data", () => stream.session!.goaway(0));
    });
  };
  const fourth = Promise.withResolvers<void>();
  await withAnswer((stream, call) => {
    answer(stream, call);
    if (call === 3) fourth.resolve();
  }, async ({ port }) => {
    await withSource(port, async (_, logged) => {
      await fourth.promise;
      assert.deepEqual(logged.filter((line) => !line.includes(" INFO ")), []);
      assert.equal(logged.filter((line) => line.includes("reconnecting")).length, 3);
    });
  });
});

Deno.test("a server that leaves before the first round is a failure, so that it is not called in a tight loop", async () => {
  await withAnswer((stream) => stream.session!.goaway(0), async ({ port }) => {
    await withSource(port, async (sink) => {
      await sink.until("cannot watch the server");
    });
  });
});

/** How a server ends a call: at once, or after a round, with an error or in an orderly way. */
type CallEnd = "fails" | "fails after a round" | "leaves after a round";

const WAITS: readonly (readonly [string, readonly CallEnd[], readonly number[]])[] = [
  ["grow with each failure", ["fails", "fails", "fails"], [1, 2, 4]],
  ["stop growing at the longest one", ["fails", "fails", "fails", "fails", "fails"], [1, 2, 4, 8, 8]],
  ["begin again after a round", ["fails", "fails", "fails after a round", "fails"], [1, 2, 1, 2]],
  ["begin again after a server that leaves", ["fails", "leaves after a round", "fails", "fails"], [1, 1, 1, 2]],
];

for (const [name, ends, expected] of WAITS) {
  Deno.test(`the waits for a server ${name}`, async () => {
    const waits: number[] = [], all = Promise.withResolvers<void>();
    const onLink: ReportLink = (_, __, event) => {
      if (event.type === "failed" && waits.push(event.retryInMs) === ends.length) all.resolve();
    };
    const answer = (stream: ServerHttp2Stream, call: number) => {
      const end = ends[call] ?? "fails";
      if (end === "fails") return stream.respond({ ...ANSWER, "grpc-status": "14" }, { endStream: true });
      const isLeaving = end === "leaves after a round";
      stream.respond(ANSWER, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "14" }));
      stream.write(framesOf([RESET, SYNC]), () => {
        // The answer of the source to the round.
        stream.once("data", () => isLeaving ? stream.session!.goaway(0) : stream.end());
      });
    };
    await withAnswer(answer, async ({ port }) => {
      await withSource(port, () => all.promise, {
        onLink,
        backoff: { firstMs: 2, longestMs: 16 },
        random: () => 0,
      });
    });
    assert.deepEqual(waits.slice(0, ends.length), expected);
  });
}

Deno.test("the authority is the server's address, or localhost on a unix socket", async () => {
  const seen: unknown[] = [];
  const note = (stream: ServerHttp2Stream, _: number, headers: Readonly<Record<string, unknown>>) => {
    seen.push(headers[":authority"]);
    stream.respond({ ...ANSWER, "grpc-status": "12" }, { endStream: true });
  };
  await withAnswer(note, async (address) => {
    await assert.rejects(callOnce(address));
    assert.deepEqual(seen, [`127.0.0.1:${address.port}`]);
  });
  const folder = Deno.makeTempDirSync();
  const path = `${folder}/server.sock`;
  await withAnswer(note, () => assert.rejects(callOnce({ kind: "unix", path })), path);
  assert.equal(seen[1], "localhost");
  Deno.removeSync(folder, { recursive: true });
});
