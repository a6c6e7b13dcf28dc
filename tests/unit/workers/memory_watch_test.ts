import assert from "node:assert/strict";
import { createMemoryWatch } from "../../../workers/memory_watch.ts";
import { createFakeClock } from "../../fakes/clock.ts";

/** A watch that checks every 100 ms, in a program of 100 bytes, 40 of them heap, whose workers may use 1,000. */
function watch() {
  const clock = createFakeClock();
  const taken = { rss: 100, heapTotal: 40 };
  let reads = 0;
  const read = () => {
    reads++;
    return { ...taken };
  };
  const memory = createMemoryWatch(clock, read, 1_000);
  return { clock, taken, memory, reads: () => reads };
}

Deno.test("a worker that exceeds the memory limit is reported once, and the main isolate's heap is not counted", () => {
  const { clock, taken, memory } = watch();
  const reports: string[] = [];
  memory((reason) => reports.push(reason));
  Object.assign(taken, { rss: 2_059, heapTotal: 1_000 });
  clock.advance(500);
  assert.deepEqual(reports, []);
  taken.rss++;
  clock.advance(10_000);
  assert.deepEqual(reports, ["the workers have taken 0 MB of memory, their limit is 0 MB"]);
});

Deno.test("of two busy workers the one that started first is reported, and the other only if that did not help", () => {
  const { clock, taken, memory } = watch();
  const reports: string[] = [];
  const endOther = memory(() => reports.push("other"));
  memory(() => reports.push("first"));
  endOther();
  memory(() => reports.push("second"));
  taken.rss = 5_000;
  clock.advance(100);
  assert.deepEqual(reports, ["first"]);
  clock.advance(500);
  assert.deepEqual(reports, ["first"]);
  clock.advance(2_000);
  assert.deepEqual(reports, ["first", "second"]);
});

Deno.test("memory that is released in time spares the other workers", () => {
  const { clock, taken, memory } = watch();
  const reports: string[] = [];
  memory(() => reports.push("first"));
  memory(() => reports.push("second"));
  taken.rss = 5_000;
  clock.advance(100);
  taken.rss = 100;
  clock.advance(10_000);
  assert.deepEqual(reports, ["first"]);
});

Deno.test("short work is checked too, and nothing is checked while all workers are idle", () => {
  const { clock, taken, memory, reads } = watch();
  const reports: string[] = [];
  memory(() => reports.push("small"))();
  assert.deepEqual(clock.pending(), []);
  const before = reads();
  clock.advance(10_000);
  assert.equal(reads(), before);
  taken.rss = 5_000;
  const end = memory(() => reports.push("large"));
  clock.advance(1);
  end();
  assert.deepEqual(reports, ["large"]);
  assert.deepEqual(clock.pending(), []);
});
