/** Many watchers that join at once: the concurrency of answers, their memory and their order. */
import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { type Answers, createAnswers } from "../../../../kpng/server/answers.ts";
import type { AwaitedChunks } from "../../../../kpng/server/snapshots.ts";
import { createChangeWaiters, createSemaphore } from "../../../../kpng/server/waiting.ts";
import { serveWatcher } from "../../../../kpng/server/watcher.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { framesOf } from "../../../../kpng/transport/grpc.ts";
import { RESET, SYNC } from "../../../../kpng/views/operations.ts";
import { createFakeClock, type FakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { manyServices } from "./served.ts";
import { sayProblems } from "../../../fakes/problems.ts";

const PLACES = 4;
const END_OF_ROUND = framesOf([SYNC]);
/** The bytes that every watcher receives before it needs a slot. */
const BEGINNING_BYTES = framesOf([RESET]).length;

/** A reader that reads on demand. */
interface Reader {
  /** The bytes written to it, and whether they contain a full snapshot with the end of its round. */
  readonly bytes: number;
  readonly complete: boolean;
  /** Whether it has an unread chunk. */
  readonly holds: boolean;
  take(): void;
  leave(): void;
}

/** A store of many services, and watchers that all join at once. */
function joining(count: number) {
  const clock = createFakeClock(undefined, promisesSettled);
  const store = createStore({
    clock,
    onProblems: sayProblems((where, message) => assert.fail(`${where}: ${message}`)),
  });
  for (const object of manyServices(1000)) store.set(object);
  for (const kind of KINDS) store.synced(kind);
  const transfers = createSemaphore(PLACES);
  const { changed } = createChangeWaiters(store, clock);
  const answers = createAnswers(store, clock);
  // Answers that were started and not completely read.
  let begun = 0;
  const counted: Answers = {
    ...answers,
    snapshot(subscription) {
      const { parts, position: next } = answers.snapshot(subscription);
      begun++;
      return { parts: [...parts, atTheEnd(() => begun--)], position: next };
    },
  };
  const readers = Array.from({ length: count }, () => reader());

  function reader(): Reader {
    const stop = new AbortController();
    let bytes = 0, asked = 0, complete = false;
    let taken: (() => void) | undefined;
    void serveWatcher({
      // There are no requests after the first round.
      nextRequest: () =>
        asked++ === 0
          ? Promise.resolve({ scope: "global", nodeName: "", extended: true, onlyNode: undefined })
          : Promise.resolve(undefined),
      write(piece) {
        bytes += piece.length;
        complete = String(piece.subarray(-END_OF_ROUND.length)) === String(END_OF_ROUND);
        return new Promise((resolve) => {
          taken = () => {
            taken = undefined;
            resolve();
          };
        });
      },
    }, { answers: counted, clock, changed, transfers, signal: stop.signal }).catch((error) => {
      if (!stop.signal.aborted) throw error;
    });
    return {
      get bytes() {
        return bytes;
      },
      get complete() {
        return complete;
      },
      get holds() {
        return taken !== undefined;
      },
      take: () => taken?.(),
      leave: () => stop.abort(new Error("the reader is gone")),
    };
  }
  return { clock, transfers, readers, begun: () => begun };
}

function atTheEnd(note: () => void): AwaitedChunks {
  return {
    at() {
      note();
      return undefined;
    },
  };
}

/** Lets these readers read until all of them have everything. */
async function readOn(clock: FakeClock, readers: readonly Reader[], observe = () => {}): Promise<void> {
  for (let turns = 0; readers.some(({ complete }) => !complete); turns++) {
    assert.ok(turns < 5000, "not all readers are served");
    for (const reader of readers) reader.take();
    await clock.advanceSettled(1);
    observe();
  }
}

Deno.test("of many watchers that join at once, only a few have an answer in transfer, and all are served in the end", async () => {
  const { clock, transfers, readers, begun } = joining(30);
  let most = 0;
  await readOn(clock, readers, () => {
    most = Math.max(most, begun());
    const served = readers.filter(({ bytes, holds, complete }) => bytes > BEGINNING_BYTES && holds && !complete);
    assert.ok(served.length <= PLACES);
  });
  assert.equal(most, PLACES);
  assert.equal(begun(), 0);
  assert.equal(transfers.taken(), 0);
  assert.equal(new Set(readers.map(({ bytes }) => bytes)).size, 1, "all readers received the same");
});

Deno.test("watchers are served in the order of their arrival", async () => {
  const { clock, readers } = joining(12);
  const order: number[] = [];
  await readOn(clock, readers, () => {
    readers.forEach(({ complete }, i) => complete && !order.includes(i) && order.push(i));
  });
  for (const [slot, i] of order.entries()) assert.ok(Math.abs(slot - i) < PLACES, order.join());
});

Deno.test("stalled readers lose their slots to others, hold one chunk each, and continue when they read", async () => {
  const { clock, readers } = joining(20);
  const stalled = readers.slice(0, 2 * PLACES);
  const reading = readers.slice(2 * PLACES);
  // After reading the start, stalled readers hold all slots, both times.
  await clock.advanceSettled(1);
  for (const reader of stalled) reader.take();
  await clock.advanceSettled(1000);
  await readOn(clock, reading);
  const bytes = stalled.map((reader) => reader.bytes);
  assert.ok(bytes.every((bytes) => bytes < 96 * 1024), bytes.join());
  await readOn(clock, stalled);
});

Deno.test("readers that do not accept a few bytes never hold a slot", async () => {
  const { clock, readers } = joining(100);
  const reading = readers.slice(-1);
  await clock.advanceSettled(1);
  const startMs = clock.monotonic();
  await readOn(clock, reading);
  assert.ok(clock.monotonic() - startMs < 250, "it is served as if it were alone");
  assert.deepEqual(new Set(readers.slice(0, -1).map(({ bytes }) => bytes)), new Set([BEGINNING_BYTES]));
});

Deno.test("the more readers stall after the start, the shorter each holds its slot", async () => {
  const { clock, readers } = joining(100);
  const reading = readers.slice(-1);
  await clock.advanceSettled(1);
  for (const reader of readers) reader.take();
  const startMs = clock.monotonic();
  await readOn(clock, reading);
  assert.ok(clock.monotonic() - startMs < 2000, `served after ${clock.monotonic() - startMs} ms`);
});

Deno.test("a watcher that disconnects while waiting or being served leaves its slot to others", async () => {
  const { clock, transfers, readers } = joining(20);
  await clock.advanceSettled(1);
  // Four hold slots, the others wait.
  for (const reader of readers.slice(0, 10)) reader.leave();
  await readOn(clock, readers.slice(10));
  assert.equal(transfers.taken(), 0);
});
