import assert from "node:assert/strict";
import { startReading, startTurn, waitAtMost } from "../../../platform/clock.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

Deno.test("long work yields after 20 ms, not before", async () => {
  const clock = createFakeClock();
  const yieldTurn = startTurn(clock);
  await yieldTurn();
  clock.advance(19);
  await yieldTurn();
  clock.advance(1);
  let resumed = false;
  const next = yieldTurn().then(() => resumed = true);
  await settled();
  assert.equal(resumed, false);
  clock.advance(0);
  await next;
  await yieldTurn();
});

Deno.test("waitAtMost ends with the work, or when its time has passed, and leaves no timer", async () => {
  const clock = createFakeClock();
  await waitAtMost(clock, 1000, Promise.resolve());
  await assert.rejects(waitAtMost(clock, 1000, Promise.reject(new Error("failed"))), /failed/);
  assert.deepEqual(clock.pending(), []);
  const late = waitAtMost(clock, 1000, new Promise(() => {}));
  clock.advance(1000);
  await late;
});

Deno.test("whoever reads lets other tasks run after each 64 KiB", async () => {
  const yieldAfter = startReading();
  assert.equal(yieldAfter(64 * 1024 - 1), undefined);
  let hasRun = false;
  setTimeout(() => hasRun = true, 0);
  await yieldAfter(1);
  assert.ok(hasRun);
  assert.equal(yieldAfter(1), undefined);
});
