import assert from "node:assert/strict";
import { createLag } from "../../../../kpng/server/metrics.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

function measured() {
  const clock = createFakeClock();
  const lags: number[] = [];
  const lag = createLag({ clock, onLag: (lagMs) => lags.push(lagMs) });
  const joined = (revision: number) => {
    const watcher = lag.join();
    watcher.upToDate(revision);
    return watcher;
  };
  return { clock, lag, joined, lags };
}

Deno.test("a change is measured until the last watcher has it", () => {
  const { clock, lag, joined, lags } = measured();
  const a = joined(1), b = joined(1);
  lag.changed(2);
  clock.advance(5);
  a.upToDate(2);
  assert.deepEqual(lags, []);
  clock.advance(7);
  b.upToDate(2);
  assert.deepEqual(lags, [12]);
});

Deno.test("a watcher that skips revisions receives all of them at once", () => {
  const { clock, lag, joined, lags } = measured();
  const a = joined(1);
  lag.changed(2);
  clock.advance(3);
  lag.changed(3);
  clock.advance(4);
  a.upToDate(3);
  assert.deepEqual(lags.sort(), [4, 7]);
});

Deno.test("changes do not wait for watchers that join later, without a complete state, or that are gone", () => {
  const { clock, lag, joined, lags } = measured();
  lag.changed(2);
  const a = joined(2), b = joined(2), joining = lag.join();
  lag.changed(3);
  clock.advance(2);
  const late = joined(2);
  a.upToDate(3);
  clock.advance(60_000);
  b.leave();
  assert.deepEqual(lags, [2], "the time until it was dropped is not a lag");
  late.upToDate(3);
  joining.leave();
  lag.changed(4);
  clock.advance(1);
  a.upToDate(4);
  late.upToDate(4);
  assert.deepEqual(lags, [2, 1]);
});

Deno.test("a change does not wait for a watcher that had it before it was announced", () => {
  const { clock, lag, joined, lags } = measured();
  const a = joined(1), b = joined(1);
  b.upToDate(2);
  lag.changed(2);
  clock.advance(3);
  a.upToDate(2);
  assert.deepEqual(lags, [3]);
  a.upToDate(3);
  b.upToDate(3);
  lag.changed(3);
  assert.deepEqual(lags, [3, 0]);
});

Deno.test("a watcher that never asks again does not keep every change in memory", () => {
  const { clock, lag, joined, lags } = measured();
  const silent = joined(1), a = joined(1);
  for (let revision = 2; revision <= 5000; revision++) {
    lag.changed(revision);
    clock.advance(1);
    a.upToDate(revision);
  }
  silent.upToDate(5000);
  assert.equal(lags.length, 1000);
});
