import assert from "node:assert/strict";
import { superviseWorker, type WorkerListener } from "../../../platform/supervised_worker.ts";
import { createFakeClock } from "../../fakes/clock.ts";

Deno.test("a restart counts once a worker has started: one that cannot is tried again", () => {
  const clock = createFakeClock(), events: string[] = [], listeners: WorkerListener<string>[] = [];
  let canStart = true;
  const worker = superviseWorker<string, string, { post(message: unknown): void; terminate(): void }>({
    clock,
    backoff: { nextMs: () => 100, reset() {} },
    firstMessages: () => [],
    spawn(listener) {
      if (!canStart) throw new Error("no memory");
      listeners.push(listener);
      return { post() {}, terminate() {} };
    },
    onMessage: (message) => void events.push(message),
    onFailure: (reason, restarts, inMs) => void events.push(`${reason}, ${restarts}, ${inMs} ms`),
    onRestarted: () => void events.push("restarted"),
  });
  worker.start();
  canStart = false;
  listeners[0]!.onFailure("crash");
  clock.advance(100);
  canStart = true;
  clock.advance(100);
  listeners[0]!.onMessage("of the worker before");
  listeners[1]!.onMessage("of this one");
  assert.deepEqual(events, ["crash, 1, 100 ms", "cannot start: no memory, 2, 100 ms", "restarted", "of this one"]);
});

Deno.test("a worker that says it ended without being stopped is replaced", () => {
  const clock = createFakeClock(), events: string[] = [];
  let started = 0;
  const worker = superviseWorker<string, string, { post(message: unknown): void; terminate(): void }>({
    clock,
    backoff: { nextMs: () => 100, reset() {} },
    firstMessages: () => [],
    spawn() {
      const name = `worker ${++started}`;
      return { post() {}, terminate: () => void events.push(`${name} terminated`) };
    },
    onMessage() {},
    onFailure: (reason) => void events.push(reason),
    onRestarted: () => void events.push("restarted"),
  });
  worker.start();
  worker.ended();
  worker.ended();
  clock.advance(100);
  worker.stop("stop", 700, (isLate) => void events.push(`late: ${isLate}`));
  worker.ended();
  assert.deepEqual(events, [
    "worker 1 terminated",
    "ended without a request",
    "restarted",
    "worker 2 terminated",
    "late: false",
  ]);
});
