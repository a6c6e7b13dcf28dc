/** Servers that violate or exhaust HTTP/2: none of them ends the process, and the next valid one is watched. */
import assert from "node:assert/strict";
import { call } from "../../../../sources/grpc/mod.ts";
import { METHODS, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { BROKEN_ANSWERS, RESPONSE, startHostileServer } from "../../../fakes/hostile_server.ts";
import { joined, rawConnection } from "../../../fakes/raw_http2.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { runs } from "../../../property/runs.ts";
import { seededBelow } from "../../../fakes/random.ts";
import { randomFrames } from "../../../fakes/random_frames.ts";
import { withServer } from "../../kpng/server/served.ts";
import { withSource } from "./grpc_source.ts";

/** The messages about servers that would exhaust memory, and about those that say why. */
const REASONS: Readonly<Record<string, string>> = {
  "RST_STREAM with an error": "the server reset the call: INTERNAL_ERROR",
  "GOAWAY with an error": "the server closed the connection: ENHANCE_YOUR_CALM",
  "PING flood": "the server floods with PING or SETTINGS frames",
  "rounds without end, taking no request": "the server does not read requests",
};

for (const [name, bytes] of Object.entries(BROKEN_ANSWERS)) {
  Deno.test(`after a server that sends ${name}, the next one is watched`, async () => {
    await withServer([service("default/web")], async ({ port, store }) => {
      const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const connect = () => Deno.connect({ hostname: "127.0.0.1", port });
      const server = startHostileServer(bytes, { listener, connect });
      const clock = createFakeClock();
      const options = { liveness: { probeAfterMs: 500, answerMs: 2000 } };
      await withSource(
        listener.addr.port,
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
