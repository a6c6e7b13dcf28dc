import assert from "node:assert/strict";
import { createWorkBudget } from "../../../../core/channel/family_channel.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

function setUp() {
  const clock = createFakeClock();
  const budget = createWorkBudget(clock);
  // The budget adds 5 ms of work beside each sync.
  const spend = (workMs: number) => budget.synced(workMs - 5);
  return {
    clock,
    budget,
    spend,
    /** Works for `durationMs` as soon as the budget allows it, and returns how long it waited. */
    work(durationMs: number): number {
      const waitMs = Math.ceil(budget.waitMs());
      clock.advance(waitMs);
      clock.advance(durationMs);
      spend(durationMs);
      return waitMs;
    },
  };
}

Deno.test("work below its share of the time never waits", () => {
  const { clock, work } = setUp();
  for (let i = 0; i < 1000; i++) {
    assert.equal(work(20), 0);
    clock.advance(80);
  }
});

Deno.test("after an idle period the share of the whole window may be spent without waiting", () => {
  const { work } = setUp();
  // Each 100 ms of work leave 80 of it, since a fifth drains off meanwhile: 25 of them make 2 s and 20 ms.
  const waitsMs = Array.from({ length: 27 }, () => work(100));
  assert.deepEqual(waitsMs, [...new Array<number>(25).fill(0), 100, 400]);
});

Deno.test("sustained work gets its share of the time and no more", () => {
  const { clock, work } = setUp();
  for (let i = 0; i < 200; i++) work(20);
  const startMs = clock.monotonic();
  const waitsMs = Array.from({ length: 500 }, () => work(20));
  assert.equal(500 * 20 / (clock.monotonic() - startMs), 0.2);
  assert.deepEqual(new Set(waitsMs), new Set([80]));
});

Deno.test("no wait exceeds the longest one, however long the work was", () => {
  const { work } = setUp();
  assert.deepEqual([work(60_000), work(60_000), work(60_000)], [0, 1000, 1000]);
});

Deno.test("an overdrawn budget is full again after an idle window", () => {
  const { clock, budget, spend, work } = setUp();
  work(60_000);
  clock.advance(11_000);
  spend(2000);
  assert.equal(budget.waitMs(), 0);
  spend(1);
  assert.equal(Math.round(budget.waitMs()), 5);
});

Deno.test("less than half a millisecond is no wait", () => {
  const { clock, budget, spend } = setUp();
  spend(2001);
  clock.advance(4.6);
  assert.equal(budget.waitMs(), 0);
});
