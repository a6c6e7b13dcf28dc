import assert from "node:assert/strict";
import type { ToWorker } from "../../../workers/protocol.ts";
import { FAMILY_START } from "../../fakes/family_start.ts";
import { following, startFamilyWorker } from "../../fakes/family_worker.ts";
import { inTime } from "../../fakes/wait.ts";

const ROLE = { type: "role", family: "IPv4", path: "/usr/sbin:/sbin" } as const;

Deno.test("a family's worker answers each message, and can be started again after a stop that keeps it", async () => {
  const { worker, post } = startFamilyWorker(), next = following(worker);
  post(ROLE);
  post({ type: "ping" });
  await next("pong");
  post({ type: "call", number: 7, name: "readPacketCounts", request: undefined });
  assert.deepEqual(await next("answered"), { type: "answered", number: 7, answer: undefined }, "before the start");
  for (let start = 0; start < 2; start++) {
    post(FAMILY_START);
    assert.match((await next("restart-needed")).reason, /can only be run after a restart of Sluice/);
    assert.equal((await next("setup-failed")).unsupported, false);
    post({ type: "cleanup" });
    assert.match((await next("cleaned")).problem!, /restart of Sluice/);
    post({ type: "call", number: 8, name: "readPacketCounts", request: undefined });
    assert.deepEqual(await next("answered"), { type: "answered", number: 8, answer: undefined }, "a call that fails");
    post({ type: "stop", keepWorker: true });
    await next("stopped");
  }
  const { port1, port2 } = new MessageChannel();
  post({ type: "start-sibling", number: 3, port: port2 }, port2);
  const { number, reason } = await next("sibling-failed");
  assert.match(`${number} ${reason}`, /^3 cannot start: /);
  port1.close();
  const own = new MessageChannel(), atPort = following(own.port1);
  post({ type: "use-port", port: own.port2 }, own.port2);
  own.port1.postMessage({ type: "ping" });
  await atPort("pong");
  own.port1.close();
  worker.terminate();
});

/** Messages that a worker must not take, since the main isolate may be in an attacker's hands. */
const REFUSED: readonly (readonly [text: RegExp, messages: readonly ToWorker[]])[] = [
  [/it came before the worker's role/, [FAMILY_START]],
  [/a worker keeps its first role/, [ROLE, { ...ROLE, path: "/tmp" }]],
  [/this worker is already started/, [ROLE, FAMILY_START, FAMILY_START]],
];

for (const [text, messages] of REFUSED) {
  Deno.test(`a family's worker ends with a message that it refuses: ${text.source}`, async () => {
    const { worker, post, failed } = startFamilyWorker();
    for (const message of messages) post(message);
    assert.match(await inTime("the end of the worker", failed), text);
    worker.terminate();
  });
}
