import assert from "node:assert/strict";
import { getHeapStatistics } from "node:v8";
import { createMemoryWatch, watchOwnMemory } from "../../../workers/memory_watch.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { passing } from "../../fakes/wait.ts";

/** A watch that checks every 100 ms, in a program of 100 MB, 40 of them heap, whose workers may use 1,000 MB. */
async function watch() {
  const clock = createFakeClock();
  const taken = { rss: 100e6, heapTotal: 40e6 };
  let reads = 0, limitReads = 0;
  const read = () => {
    reads++;
    return { ...taken };
  };
  const memory = createMemoryWatch(clock, read, () => {
    limitReads++;
    return Promise.resolve(1_000e6);
  });
  const end = memory(() => assert.fail("reported within the limit"));
  taken.rss += 64e6 - 1;
  clock.advance(100);
  assert.equal(limitReads, 0);
  taken.rss++;
  clock.advance(200);
  await Promise.resolve();
  assert.equal(limitReads, 1);
  taken.rss = 100e6;
  end();
  return { clock, taken, memory, reads: () => reads };
}

Deno.test("a worker that exceeds the memory limit is reported once, and the main isolate's heap is not counted", async () => {
  const { clock, taken, memory } = await watch();
  const reports: string[] = [];
  memory((reason) => reports.push(reason));
  Object.assign(taken, { rss: 2_059e6, heapTotal: 1_000e6 });
  clock.advance(500);
  assert.deepEqual(reports, []);
  taken.rss += 1e6;
  clock.advance(10_000);
  assert.deepEqual(reports, ["the workers have taken 1000 MB of memory, their limit is 1000 MB"]);
});

Deno.test("of two busy workers the one that started first is reported, and the other only if that did not help", async () => {
  const { clock, taken, memory } = await watch();
  const reports: string[] = [];
  const endOther = memory(() => reports.push("other"));
  memory(() => reports.push("first"));
  endOther();
  memory(() => reports.push("second"));
  taken.rss = 5_000e6;
  clock.advance(100);
  assert.deepEqual(reports, ["first"]);
  // Ten readings are left out, the first of which is over.
  clock.advance(900);
  assert.deepEqual(reports, ["first"]);
  clock.advance(100);
  assert.deepEqual(reports, ["first", "second"]);
});

Deno.test("the workers of this program may take most of what V8 allows one isolate, and not more", async () => {
  const clock = createFakeClock(), most = getHeapStatistics().heap_size_limit;
  const taken = { rss: 0, heapTotal: 0 }, reports: string[] = [];
  watchOwnMemory(clock, () => taken)((reason) => reports.push(reason));
  taken.rss = most / 2;
  await passing(clock, () => clock.monotonic() > 1_000);
  assert.deepEqual(reports, []);
  taken.rss = most;
  await passing(clock, () => reports.length > 0);
});

Deno.test("memory that is released in time spares the other workers", async () => {
  const { clock, taken, memory } = await watch();
  const reports: string[] = [];
  memory(() => reports.push("first"));
  memory(() => reports.push("second"));
  taken.rss = 5_000e6;
  clock.advance(100);
  taken.rss = 100e6;
  clock.advance(10_000);
  assert.deepEqual(reports, ["first"]);
});

Deno.test("short work is checked too, and nothing is checked while all workers are idle", async () => {
  const { clock, taken, memory, reads } = await watch();
  const reports: string[] = [];
  memory(() => reports.push("small"))();
  assert.deepEqual(clock.pending(), []);
  const before = reads();
  clock.advance(10_000);
  assert.equal(reads(), before);
  taken.rss = 5_000e6;
  const end = memory(() => reports.push("large"));
  clock.advance(1);
  end();
  assert.deepEqual(reports, ["large"]);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("the end of one worker's work does not end the watch of another's", async () => {
  const { clock, taken, memory } = await watch();
  const reports: string[] = [];
  const end = memory(() => reports.push("first"));
  memory(() => reports.push("second"));
  end();
  taken.rss = 5_000e6;
  clock.advance(100);
  assert.deepEqual(reports, ["second"]);
});
