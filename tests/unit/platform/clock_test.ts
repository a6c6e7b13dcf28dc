import assert from "node:assert/strict";
import { startReading, startTurn, systemClock, waitAtMost, withDeadline } from "../../../platform/clock.ts";
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

Deno.test("a timer of the machine's clock for longer than setTimeout can wait does not fire at once", async () => {
  const fired: string[] = [];
  const cancel = systemClock.schedule(2 ** 31, () => fired.push("in 25 days"));
  await new Promise<void>((resolve) => systemClock.schedule(10, resolve));
  cancel();
  assert.deepEqual(fired, []);
});

Deno.test("a task with a deadline fails with the lateness, the caller's reason or its own error, and leaves no timer", async () => {
  const late = new Error("late");
  const failing = (signal: AbortSignal) =>
    new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(new Error("its own words"))));
  const setUp = () => ({ clock: createFakeClock(), stop: new AbortController() });
  {
    const { clock, stop } = setUp(), task = withDeadline(clock, 1000, late, stop.signal, failing);
    clock.advance(1000);
    await assert.rejects(task, late);
  }
  {
    const { clock, stop } = setUp(), task = withDeadline(clock, 1000, late, stop.signal, failing);
    stop.abort(new Error("stopped"));
    await assert.rejects(task, /stopped/);
    assert.deepEqual(clock.pending(), []);
  }
  const { clock, stop } = setUp();
  const refused = () => Promise.reject(new Error("refused"));
  await assert.rejects(withDeadline(clock, 1000, late, stop.signal, refused), /refused/);
  assert.equal(await withDeadline(clock, 1000, late, stop.signal, () => Promise.resolve(1)), 1);
  assert.deepEqual(clock.pending(), []);
});
