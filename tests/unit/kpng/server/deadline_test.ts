import assert from "node:assert/strict";
import { createDeadline } from "../../../../kpng/server/waiting.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

Deno.test("a deadline passes once, at the time to which it was moved last", () => {
  const clock = createFakeClock();
  const passed: number[] = [];
  const deadline = createDeadline(clock, () => passed.push(clock.monotonic()));
  deadline.set(100);
  clock.advance(60);
  deadline.set(100);
  clock.advance(99);
  assert.deepEqual(passed, []);
  clock.advance(1000);
  assert.deepEqual(passed, [160]);
  deadline.set(500);
  deadline.set(20);
  clock.advance(1000);
  assert.deepEqual(passed, [160, 1179], "it can also be moved to an earlier time");
});

Deno.test("a cleared deadline does not pass, and a stopped one leaves no timer", () => {
  const clock = createFakeClock();
  const deadline = createDeadline(clock, () => assert.fail("it passed"));
  deadline.set(100);
  deadline.clear();
  clock.advance(200);
  deadline.set(100);
  deadline.stop();
  assert.deepEqual(clock.pending(), []);
});

Deno.test("moving a deadline starts no timer", () => {
  const clock = createFakeClock();
  const deadline = createDeadline(clock, () => {});
  for (let i = 0; i < 10; i++) {
    deadline.set(100);
    clock.advance(1);
  }
  assert.equal(clock.pending().length, 1);
});
