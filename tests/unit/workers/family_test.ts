import assert from "node:assert/strict";
import type { FromWorker, ToWorker } from "../../../workers/protocol.ts";
import { workerEntry } from "../../../workers/web_worker.ts";
import { FAMILY_START } from "../../fakes/family_start.ts";
import { inTime } from "../../fakes/wait.ts";

const ROLE = { type: "role", family: "IPv4", path: "/usr/sbin:/sbin" } as const;

/** A real worker of a family that may run no tool, so that each setup fails. */
function startWorker() {
  const worker = new Worker(workerEntry("family"), {
    type: "module",
    deno: {
      permissions: {
        ...{ env: false, ffi: false, import: false, net: false, run: false, sys: false, write: false },
        read: [new URL("../../..", import.meta.url)],
      },
    },
  });
  const failed = Promise.withResolvers<string>();
  worker.onerror = (event) => {
    event.preventDefault();
    failed.resolve(event.message);
  };
  const post = (message: ToWorker, port?: MessagePort) => worker.postMessage(message, port ? [port] : []);
  return { worker, post, failed: failed.promise };
}

/** Returns a function that resolves with the next message of a type. */
function following(from: Pick<Worker, "onmessage"> | MessagePort) {
  const seen: FromWorker[] = [];
  let check = () => {};
  from.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    seen.push(data);
    check();
  };
  return <T extends FromWorker["type"]>(type: T) =>
    inTime(
      type,
      new Promise<Extract<FromWorker, { type: T }>>((resolve) => {
        check = () => {
          const at = seen.findIndex((message) => message.type === type);
          if (at >= 0) resolve(seen.splice(at, 1)[0] as Extract<FromWorker, { type: T }>);
        };
        check();
      }),
    );
}

Deno.test("a family's worker answers each message, and can be started again after a stop that keeps it", async () => {
  const { worker, post } = startWorker(), next = following(worker);
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
    const { worker, post, failed } = startWorker();
    for (const message of messages) post(message);
    assert.match(await inTime("the end of the worker", failed), text);
    worker.terminate();
  });
}
