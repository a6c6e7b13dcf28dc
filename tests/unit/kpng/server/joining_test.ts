/** Many watchers that come at once: how much of what they are told is made and held at a time, and who is served when. */
import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { type Answers, createAnswers } from "../../../../kpng/server/answers.ts";
import type { Chunks } from "../../../../kpng/server/chunks.ts";
import { createPlaces } from "../../../../kpng/server/places.ts";
import { createWakeups } from "../../../../kpng/server/wakeups.ts";
import { serveWatcher } from "../../../../kpng/server/watcher.ts";
import { createStore } from "../../../../kpng/store/store.ts";
import { framesOf } from "../../../../kpng/transport/frames.ts";
import { RESET, SYNC } from "../../../../kpng/views/operations.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { manyServices } from "./served.ts";
import { sayProblems } from "../../../fakes/problems.ts";

const PLACES = 4;
const END_OF_ROUND = String(framesOf([SYNC]));
/** What everybody is written before there is a place for it. */
const BEGINNING_BYTES = framesOf([RESET]).length;

/** A reader that takes what is written when it is told to. */
interface Reader {
  /** How many bytes it was written, and whether the whole state with the end of its round was among them. */
  readonly bytes: number;
  readonly complete: boolean;
  /** Whether it holds a piece that it has not taken. */
  readonly holds: boolean;
  take(): void;
  leave(): void;
}

/** A store of many services, and so many watchers that all come at once. */
function joining(count: number) {
  const clock = createFakeClock();
  const store = createStore({
    clock,
    onProblems: sayProblems((where, message) => assert.fail(`${where}: ${message}`)),
  });
  for (const object of manyServices(2000)) store.set(object);
  for (const kind of KINDS) store.synced(kind);
  const places = createPlaces(PLACES);
  const { changed } = createWakeups(store, clock);
  const answers = createAnswers(store, clock);
  // Answers that were begun, and not read to their end.
  let begun = 0;
  const counted: Answers = {
    ...answers,
    since(position, subscription) {
      const { parts, position: next } = answers.since(position, subscription);
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
      // Nothing more is asked for after the first round.
      nextRequest: () =>
        asked++ === 0
          ? Promise.resolve({ scope: "global", nodeName: "", extended: true, onlyNode: undefined })
          : Promise.resolve(undefined),
      write(piece) {
        bytes += piece.length;
        complete = String(piece) === END_OF_ROUND;
        return new Promise((resolve) => {
          taken = () => {
            taken = undefined;
            resolve();
          };
        });
      },
    }, { answers: counted, clock, changed, places, signal: stop.signal }).catch((error) => {
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
  return { clock, places, readers, begun: () => begun };
}

function atTheEnd(note: () => void): Chunks {
  return {
    at() {
      note();
      return undefined;
    },
  };
}

/** Lets these readers take what they are written until all of them have everything. */
async function readOn(clock: FakeClock, readers: readonly Reader[], observe = () => {}): Promise<void> {
  for (let turns = 0; readers.some(({ complete }) => !complete); turns++) {
    assert.ok(turns < 5000, "not everybody is served");
    for (const reader of readers) reader.take();
    await clock.advanceSettled(1);
    observe();
  }
}

Deno.test("of all who come at once, only a few have an answer on its way, and all are served in the end", async () => {
  const { clock, places, readers, begun } = joining(30);
  let most = 0;
  await readOn(clock, readers, () => {
    most = Math.max(most, begun());
    const served = readers.filter(({ bytes, holds, complete }) => bytes > BEGINNING_BYTES && holds && !complete);
    assert.ok(served.length <= PLACES);
  });
  assert.equal(most, PLACES);
  assert.equal(begun(), 0);
  assert.equal(places.taken(), 0);
  assert.equal(new Set(readers.map(({ bytes }) => bytes)).size, 1, "everybody was told the same");
});

Deno.test("those who came first are served first", async () => {
  const { clock, readers } = joining(12);
  const order: number[] = [];
  await readOn(clock, readers, () => {
    readers.forEach(({ complete }, i) => complete && !order.includes(i) && order.push(i));
  });
  for (const [place, i] of order.entries()) assert.ok(Math.abs(place - i) < PLACES, order.join());
});

Deno.test("readers that take nothing lose their places to those who read, hold one piece each, and go on when they read", async () => {
  const { clock, readers } = joining(20);
  const stalled = readers.slice(0, 2 * PLACES);
  const reading = readers.slice(2 * PLACES);
  // Once they have taken the beginning, all places are with readers that take nothing, both times.
  await clock.advanceSettled(1);
  for (const reader of stalled) reader.take();
  await clock.advanceSettled(1000);
  await readOn(clock, reading);
  const bytes = stalled.map((reader) => reader.bytes);
  assert.ok(bytes.every((bytes) => bytes < 64 * 1024), bytes.join());
  await readOn(clock, stalled);
});

Deno.test("readers without room for a few bytes never hold a place", async () => {
  const { clock, readers } = joining(100);
  const reading = readers.slice(-1);
  await clock.advanceSettled(1);
  const startMs = clock.monotonic();
  await readOn(clock, reading);
  assert.ok(clock.monotonic() - startMs < 250, "it is served as if it were alone");
  assert.deepEqual(new Set(readers.slice(0, -1).map(({ bytes }) => bytes)), new Set([BEGINNING_BYTES]));
});

Deno.test("of many readers that take only the beginning, each holds its place the shorter", async () => {
  const { clock, readers } = joining(100);
  const reading = readers.slice(-1);
  await clock.advanceSettled(1);
  for (const reader of readers) reader.take();
  const startMs = clock.monotonic();
  await readOn(clock, reading);
  assert.ok(clock.monotonic() - startMs < 2000, `served after ${clock.monotonic() - startMs} ms`);
});

Deno.test("who goes while it waits or is served leaves its place to others", async () => {
  const { clock, places, readers } = joining(20);
  await clock.advanceSettled(1);
  // Four have places, the others wait.
  for (const reader of readers.slice(0, 10)) reader.leave();
  await readOn(clock, readers.slice(10));
  assert.equal(places.taken(), 0);
});
