import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { createAnswers, type Subscription } from "../../../../kpng/server/answers.ts";
import { createChangeWaiters, createSemaphore } from "../../../../kpng/server/waiting.ts";
import { openWatch, serveWatcher } from "../../../../kpng/server/watcher.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { createFrameReader, STATUS, StatusError } from "../../../../kpng/transport/grpc.ts";
import { OP_ITEM, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { manyServices } from "./served.ts";
import { sayProblems } from "../../../fakes/problems.ts";

const GLOBAL: Subscription = { scope: "global", nodeName: "", extended: true, onlyNode: undefined };
const onProblems = sayProblems((where, message) => assert.fail(`${where}: ${message}`));

/** A watcher of a store whose reader accepts a chunk whenever `take` is called. */
function watched(request: Subscription, transfers = createSemaphore(1)) {
  const clock = createFakeClock();
  const store = createStore({ clock, onProblems });
  const waiters = createChangeWaiters(store, clock);
  const stop = new AbortController();
  const written: Uint8Array[] = [];
  let asked = 0;
  let room = Promise.withResolvers<void>();
  const stream = {
    nextRequest: () => asked++ < 10 ? Promise.resolve(request) : Promise.resolve(undefined),
    write(bytes: Uint8Array) {
      written.push(bytes);
      return room.promise;
    },
  };
  const served = serveWatcher(stream, {
    answers: createAnswers(store, clock),
    clock,
    changed: waiters.changed,
    transfers,
    signal: stop.signal,
  }).catch((error) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    clock,
    store,
    /** The bytes written since the last call. */
    written: () => written.splice(0),
    async take() {
      room.resolve();
      room = Promise.withResolvers();
      await clock.advanceSettled(10);
    },
    async stop() {
      stop.abort();
      await served;
    },
  };
}

/** The operations in chunks, in short. */
function operations(pieces: readonly Uint8Array[]): string[] {
  const frames = createFrameReader(1 << 20);
  return pieces.flatMap((piece) => frames.push(piece)).map((bytes) => {
    const { set, delete: deleted, ...rest } = OP_ITEM.decode(bytes);
    return set !== undefined
      ? `set ${set.ref?.path}`
      : deleted !== undefined
      ? `delete ${deleted.path}`
      : Object.keys(rest)[0]!;
  });
}

Deno.test("nothing is sent before the store is synced, and nothing without changes", async () => {
  const { clock, store, written, take, stop } = watched(GLOBAL);
  store.set(service("default/web"));
  await clock.advanceSettled(100);
  assert.deepEqual(written(), []);
  for (const kind of KINDS) store.synced(kind);
  await clock.advanceSettled(100);
  await take();
  await take();
  await take();
  assert.deepEqual(operations(written()), ["reset", "set default|web||", "sync"]);
  await take();
  assert.deepEqual(written(), [], "an answer without a difference is held back");
  store.set(service("default/api"));
  store.delete({ kind: "Service", namespace: "default", name: "web" });
  await clock.advanceSettled(100);
  const pieces = written();
  assert.equal(pieces.length, 1, "a small change and the end of its round are one write");
  assert.deepEqual(operations(pieces), ["set default|api||", "delete default|web||", "sync"]);
  await take();
  await stop();
});

Deno.test("for a stalled reader, one chunk waits and no other is computed; then it receives the newest state", async () => {
  const { clock, store, written, take, stop } = watched(GLOBAL);
  for (const object of manyServices(1300)) store.set(object);
  for (const kind of KINDS) store.synced(kind);
  await clock.advanceSettled(100);
  assert.equal(written().length, 1);
  await clock.advanceSettled(60_000);
  assert.deepEqual(written(), []);
  let pieces: Uint8Array[] = [];
  while (operations(pieces).at(-1) !== "sync") {
    await take();
    pieces = [...pieces, ...written()];
    assert.ok(pieces.every(({ length }) => length < 64 * 1024));
  }
  assert.ok(pieces.length > 5);
  // Several changes without a reader are sent once, with the final state.
  for (let i = 1; i <= 10; i++) {
    store.set(service("default/s1", { affinitySeconds: i }));
    await clock.advanceSettled(10);
  }
  await take();
  await take();
  await take();
  const said = operations(written());
  assert.ok(said.filter((operation) => operation === "set default|s1||").length <= 2, said.join());
  await stop();
});

Deno.test("a change of more than some chunks waits for a slot, as a snapshot does", async () => {
  const transfers = createSemaphore(1), other = transfers.join(), { signal } = new AbortController();
  const { clock, store, written, take, stop } = watched(GLOBAL, transfers);
  for (const kind of KINDS) store.synced(kind);
  await clock.advanceSettled(100);
  while (operations(written()).at(-1) !== "sync") await take();
  await take();
  await other.enter(signal);
  for (const object of manyServices(1300)) store.set(object);
  await clock.advanceSettled(100);
  let pieces: Uint8Array[] = [];
  const takeAll = async () => {
    for (let i = 0; i < 20; i++) {
      pieces = [...pieces, ...written()];
      await take();
    }
  };
  await takeAll();
  const withoutSlot = pieces.length;
  assert.ok(withoutSlot > 0 && withoutSlot <= 4, String(withoutSlot));
  other.leave();
  await takeAll();
  assert.ok(pieces.length > withoutSlot);
  assert.equal(operations(pieces).at(-1), "sync");
  assert.equal(transfers.taken(), 0);
  await stop();
});

Deno.test("what an answer holds is released once it is written, and also if its reader leaves", async () => {
  for (const leaves of [false, true]) {
    let released = 0, asked = 0;
    const answer = { parts: [], position: { revision: 1, zone: "" }, release: () => void released++ };
    const clock = createFakeClock();
    const chunk = new Uint8Array(64 * 1024);
    const parts = [{ sharedId: undefined, at: (i: number) => i === 0 ? chunk : undefined }];
    const served = serveWatcher({
      nextRequest: () => Promise.resolve(asked++ === 0 ? GLOBAL : undefined),
      write: (bytes) => leaves && bytes === chunk ? Promise.reject(new Error("left")) : Promise.resolve(),
    }, {
      answers: { changes: () => undefined, snapshot: () => ({ ...answer, parts }) },
      ...{
        clock,
        changed: () => Promise.resolve(),
        transfers: createSemaphore(1),
        signal: new AbortController().signal,
      },
    });
    if (leaves) await assert.rejects(served, /left/);
    else await served;
    assert.equal(released, 1);
  }
});

Deno.test("the node of a stream cannot change, and bytes count once the reader has accepted them", async () => {
  const requests = ["a", "a", "b"].map((nodeName) => WATCH_REQUEST.encode({ nodeName, extended: true }));
  const accepted = Promise.withResolvers<void>();
  const call = {
    signal: new AbortController().signal,
    open: <T>(decode: (message: Uint8Array<ArrayBuffer>) => T) => ({
      next: () => Promise.resolve(requests.length === 0 ? undefined : decode(requests.shift()!)),
      write: () => accepted.promise,
    }),
  };
  let counted = 0;
  const stream = openWatch(call, "local", { wrote: (bytes) => void (counted += bytes) });
  for (let i = 0; i < 2; i++) assert.equal((await stream.nextRequest())?.nodeName, "a");
  await assert.rejects(
    stream.nextRequest(),
    (error) => error instanceof StatusError && error.status === STATUS.INVALID_ARGUMENT,
  );
  assert.equal(await stream.nextRequest(), undefined);
  const writing = stream.write(new Uint8Array(3));
  assert.equal(counted, 0);
  accepted.resolve();
  await writing;
  assert.equal(counted, 3);
});
