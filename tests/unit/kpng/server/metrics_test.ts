/** The metrics of a server: who watches, what was sent, and who was turned away. */
import assert from "node:assert/strict";
import { framesOf, STATUS } from "../../../../kpng/transport/grpc.ts";
import { METHODS, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { connectKpngClient, openGrpcCall } from "../../../fakes/kpng.ts";
import { connectRaw } from "../../../fakes/raw_http2.ts";
import { passing, until } from "../../../fakes/wait.ts";
import { manyServices, withServer } from "./served.ts";

const ASK = WATCH_REQUEST.encode({ nodeName: "node-a" });

Deno.test("watchers, rounds and bytes are counted by scope, and each change once by its last watcher", async () => {
  const lags: number[] = [];
  await withServer([service("default/web")], async ({ port, serving, store }) => {
    const clients = [
      connectKpngClient(port, METHODS.global),
      connectKpngClient(port, METHODS.local),
      connectKpngClient(port, METHODS.local),
    ];
    const received = await Promise.all(clients.map((client) => client.round(ASK)));
    const byScope = (name: "watchers" | "rounds" | "bytes") =>
      (["global", "local"] as const).map((scope) => serving.count(`${name} ${scope}`));
    // Workers report what they have sent.
    await until(() => serving.count("rounds local") === 2 && serving.count("rounds global") === 1);
    assert.deepEqual([byScope("watchers"), serving.connections()], [[1, 2], 3]);
    const bytes = [[received[0]!], [received[1]!, received[2]!]].map((rounds) => framesOf(rounds.flat()).length);
    assert.deepEqual(byScope("bytes"), bytes);
    assert.deepEqual(lags, []);

    const next = clients.map((client) => client.round(ASK));
    store.set(service("default/api"));
    await Promise.all(next);
    await until(() => lags.length === 1);
    await until(() => serving.count("rounds local") === 4);
    assert.deepEqual(byScope("rounds"), [2, 4]);

    for (const client of clients) client.close();
    await until(() => serving.watchers() === 0);
    assert.deepEqual(byScope("watchers"), [0, 0]);
    assert.equal(lags.length, 1);
  }, { onLag: (lagMs) => lags.push(lagMs) });
});

Deno.test("slow readers and watchers over the limit are counted", async () => {
  const clock = createFakeClock();
  await withServer(manyServices(1000), async ({ port, serving }) => {
    const { session, stream } = openGrpcCall(port, METHODS.global);
    stream.pause();
    stream.write(framesOf([ASK]));
    await until(() => serving.watchers() === 1);
    const refused = connectKpngClient(port, METHODS.global);
    assert.equal(await refused.status, STATUS.RESOURCE_EXHAUSTED);
    assert.deepEqual([serving.count("refused watchers"), serving.count("slow readers")], [1, 0]);
    await passing(clock, () => serving.watchers() === 0);
    assert.deepEqual([serving.count("refused watchers"), serving.count("slow readers")], [1, 1]);
    refused.close();
    session.destroy();
  }, { clock, limits: { stallMs: 300, streams: 1 } });
});

Deno.test("a connection that the server closed is counted by its reason", async () => {
  const clock = createFakeClock();
  await withServer([], async ({ port, serving }) => {
    const idle = await connectRaw(port);
    await until(() => serving.connections() === 1);
    await passing(clock, () => serving.closed("no call") === 1);
    assert.equal(serving.closed("too many connections"), 0);
    idle.close();
  }, { clock, limits: { idleMs: 500 } });
});
