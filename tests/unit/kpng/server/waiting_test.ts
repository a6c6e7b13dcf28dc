import assert from "node:assert/strict";
import { createChangeWaiters, createSemaphore } from "../../../../kpng/server/waiting.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";

const never = new AbortController().signal;

Deno.test("slots go to the longest waiter, and are held for a shorter time if more wait than there are slots", async () => {
  const semaphore = createSemaphore(2), entered: number[] = [];
  const slots = Array.from({ length: 5 }, () => semaphore.join());
  const leaves = new AbortController();
  const rejected = [assert.rejects(async () => {
    await slots[0]!.enter(never);
    await slots[1]!.enter(never);
    await slots[2]!.enter(leaves.signal);
  }, /left/)];
  await promisesSettled();
  const enter = (i: number) => void slots[i]!.enter(never).then(() => entered.push(i));
  enter(3);
  assert.deepEqual([semaphore.taken(), semaphore.holdLimitMs()], [2, 250]);
  enter(4);
  assert.equal(semaphore.holdLimitMs(), 25);
  leaves.abort(new Error("left"));
  await Promise.all(rejected);
  slots[0]!.leave();
  slots[0]!.leave();
  await promisesSettled();
  assert.deepEqual([entered, semaphore.taken()], [[3], 2]);
  for (const i of [1, 3, 4]) {
    slots[i]!.leave();
    await promisesSettled();
  }
  assert.deepEqual([entered, semaphore.taken()], [[3, 4], 0]);
});

Deno.test("a watcher waits for a newer revision of a store that is in sync, and stops with its signal", async () => {
  let isReady = false, revision = 1, publish = () => {};
  const waiters = createChangeWaiters({
    ready: () => isReady,
    revision: () => revision,
    subscribe(subscriber) {
      publish = subscriber;
      return () => {};
    },
  }, createFakeClock());
  const woken: string[] = [];
  const wait = (name: string, after: number) => void waiters.changed(after, never).then(() => woken.push(name));
  wait("before the sync", 0);
  await promisesSettled();
  assert.deepEqual(woken, []);
  isReady = true;
  wait("at once", 0);
  wait("later", 1);
  await promisesSettled();
  assert.deepEqual(woken.splice(0), ["at once"]);
  revision = 2;
  publish();
  await promisesSettled();
  assert.deepEqual(woken, ["before the sync", "later"]);
  await assert.rejects(waiters.changed(0, AbortSignal.abort(new Error("left"))), /left/);
});

Deno.test("thousands of watchers are woken by one change, some in each turn", async () => {
  const clock = createFakeClock(undefined, promisesSettled);
  let publish = () => {};
  const waiters = createChangeWaiters({
    ready: () => true,
    revision: () => 1,
    subscribe(subscriber) {
      publish = subscriber;
      return () => {};
    },
  }, clock);
  let woken = 0;
  for (let i = 0; i < 1_100; i++) void waiters.changed(1, never).then(() => woken++);
  publish();
  await promisesSettled();
  assert.ok(woken > 0 && woken < 1_100, String(woken));
  await clock.advanceSettled(0);
  assert.equal(woken, 1_100);
});
