import assert from "node:assert/strict";
import { createRoundPace } from "../../../node/round_pace.ts";
import { createFakeClock } from "../../fakes/clock.ts";

/** A pace, and changes that come at an interval; each round takes `workMs` of CPU. */
function setUp({ minSyncPeriodMs = 0, workMs = 0 } = {}) {
  const clock = createFakeClock();
  let cpuMs = 0;
  const pace = createRoundPace(clock, minSyncPeriodMs, () => cpuMs);
  return {
    clock,
    pace,
    /** The waits of the rounds for this many changes, each change's distance from the one before in milliseconds. */
    waits(count: number, everyMs: number): number[] {
      const waitsMs: number[] = [];
      let roundAtMs: number | undefined;
      const endRound = () => {
        clock.advance(roundAtMs! - clock.monotonic());
        roundAtMs = undefined;
        pace.began();
        cpuMs += workMs;
        pace.synced({ full: false, durationMs: 0 });
        // Work of others, which is none of a round.
        cpuMs += 1000;
      };
      for (let i = 0; i < count; i++) {
        const atMs = clock.monotonic() + everyMs;
        if (roundAtMs !== undefined && roundAtMs <= atMs) endRound();
        clock.advance(atMs - clock.monotonic());
        if (roundAtMs !== undefined) continue;
        const waitMs = pace.delayMs();
        waitsMs.push(waitMs);
        roundAtMs = clock.monotonic() + waitMs;
      }
      if (roundAtMs !== undefined) endRound();
      return waitsMs;
    },
    spend(ms: number) {
      cpuMs += ms;
    },
  };
}

Deno.test("isolated changes are planned at once", () => {
  assert.deepEqual(new Set(setUp().waits(1000, 150)), new Set([2]));
});

Deno.test("changes that keep coming are joined, up to a second, and after a quiet time one is planned at once again", () => {
  const { waits, clock } = setUp();
  const waitsMs = waits(200, 50);
  assert.deepEqual(waitsMs.slice(0, 7), [2, 2, 2, 52, 152, 352, 752]);
  assert.deepEqual(new Set(waitsMs.slice(7)), new Set([952]));
  clock.advance(375);
  assert.deepEqual(waits(1, 0), [2]);
});

Deno.test("changes that keep coming at uneven distances are joined, too", () => {
  const { waits } = setUp();
  waits(100, 100);
  assert.deepEqual(waits(1, 130), [670]);
  assert.deepEqual(waits(20, 100).slice(-1), [1000]);
});

Deno.test("a Service and its slices, one after the other, do not wait", () => {
  assert.deepEqual(setUp().waits(3, 10), [2, 2, 2]);
});

Deno.test("above a tenth of a core, work waits once it has used up two seconds", () => {
  const { waits } = setUp({ workMs: 55 });
  const waitsMs = waits(400, 300);
  // Each round adds 55 ms to the bucket, and 30 drain until the next.
  assert.ok(waitsMs.slice(0, 79).every((waitMs) => waitMs === 2));
  const sustained = waitsMs.slice(-20);
  assert.ok(sustained.every((waitMs) => waitMs > 200 && waitMs < 600), String(sustained));
});

Deno.test("no change waits longer than a second, however much work there was", () => {
  const { pace, spend } = setUp();
  pace.began();
  spend(60_000);
  pace.synced({ full: false, durationMs: 60_000 });
  assert.equal(pace.delayMs(), 1000);
});

Deno.test("neither the start, nor a comparison with the kernel, nor work between rounds counts", () => {
  const { pace, spend, clock } = setUp();
  spend(60_000);
  pace.began();
  spend(60_000);
  pace.synced({ full: true, durationMs: 60_000 });
  spend(60_000);
  clock.advance(200);
  assert.equal(pace.delayMs(), 2);
});

Deno.test("a retry does not count the work since the sync before it", () => {
  const { pace, spend, clock } = setUp();
  pace.began();
  pace.synced({ full: false, durationMs: 0 });
  spend(60_000);
  pace.synced({ full: false, durationMs: 0 });
  clock.advance(200);
  assert.equal(pace.delayMs(), 2);
});

Deno.test("the durations of syncs count, since tools work in them", () => {
  const { pace, clock } = setUp();
  pace.began();
  pace.synced({ full: false, durationMs: 2050 });
  clock.advance(200);
  assert.equal(pace.delayMs(), 300);
});

Deno.test("with minSyncPeriod, rounds do not wait: the families limit their syncs", () => {
  const { waits } = setUp({ minSyncPeriodMs: 1, workMs: 1000 });
  assert.deepEqual(new Set(waits(100, 10)), new Set([2]));
});

Deno.test("however much work a round took, a second later a change is planned at once", () => {
  const { clock, pace } = setUp();
  pace.began();
  pace.synced({ full: false, durationMs: 600_000 });
  assert.equal(pace.delayMs(), 1_000);
  clock.advance(1_000);
  assert.equal(pace.delayMs(), 2);
});
