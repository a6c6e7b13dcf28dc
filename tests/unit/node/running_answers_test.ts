/** When a running proxy answers, and with which counts. */
import assert from "node:assert/strict";
import { NotReadyError } from "../../../answers/mod.ts";
import type { CountsOfPorts } from "../../../core/model/mod.ts";
import { KINDS } from "../../../core/objects/cluster_object.ts";
import { answersOfProxy } from "../../../node/running_answers.ts";
import type { RunningProxy } from "../../../node/running_status.ts";
import { service } from "../../fakes/cluster_objects.ts";
import { serveIPv4 } from "../../fakes/served_family.ts";

Deno.test("questions about services wait for the whole state, and are answered with counts that were just read", async () => {
  const { configuration, tracking, family, clock, apply } = serveIPv4();
  const other = serveIPv4();
  let reads = 0;
  const traffic = { perSecond: { connections: 0 }, connections: 0 };
  const counts = {
    refresh: () => Promise.resolve(void reads++),
    ofPort: () => traffic,
    ofEndpoint: () => traffic,
    lastReadMs: () => 0,
  } as unknown as CountsOfPorts;
  const proxy = {
    ...{ configuration, tracking, clock, startedAtMs: 0 },
    families: [family, { ...other.family, family: "IPv6" }],
    features: { counts: () => counts, status: () => ({}) },
    feed: { read: (since?: number) => ({ startedAtMs: 0, last: since ?? 0, events: [] }) },
  } as unknown as RunningProxy;
  const answers = answersOfProxy(proxy);
  for (const ask of [() => answers.services(""), () => answers.endpoints(""), () => answers.state("IPv4")]) {
    await assert.rejects(ask(), NotReadyError);
  }
  assert.equal((await answers.events(7)).last, 7, "events are known before");
  for (const kind of KINDS) tracking.synced(kind);
  await apply(service("default/web"));
  assert.deepEqual((await answers.services("")).map(({ name }) => name), ["default/web:http"]);
  assert.equal(reads, 1);
  await answers.endpoints("");
  await answers.state("IPv4");
  assert.equal(reads, 2);
});
