import assert from "node:assert/strict";
import { silentLogger } from "../../../../platform/log.ts";
import { createKeeper } from "../../../../sources/kept/kept_source.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { service } from "../../../fakes/cluster_objects.ts";

/** The time from the end of a write to the next one, after a change, if each holds the event loop for this time. */
async function pauseAfter(busyMs: number): Promise<number> {
  const timers = createFakeClock();
  let heldMs = 0;
  let hasWritten = false;
  const keeper = createKeeper({
    file: {
      path: "state",
      read: () => assert.fail("the keeper reads nothing"),
      write() {
        hasWritten = true;
        return Promise.resolve();
      },
    },
    origin: { node: "here", source: "kube", proxyName: "" },
    *objects() {
      heldMs += busyMs;
      yield service("default/web");
    },
    clock: { ...timers, monotonic: () => timers.monotonic() + heldMs },
    logger: silentLogger,
  }, (_scope, problems) => assert.deepEqual(problems, []));
  keeper.start();
  assert.deepEqual(timers.pending(), [1_000], "changes settle first");
  timers.advance(1_000);
  while (!hasWritten) {
    await settled();
    timers.advance(0);
  }
  await settled();
  keeper.changed();
  const [pause, ...others] = timers.pending();
  assert.deepEqual(others, []);
  return pause!;
}

Deno.test("writes take at most 1% of the time, and start ten seconds apart at least", async () => {
  assert.equal(await pauseAfter(0), 10_000);
  assert.equal(await pauseAfter(40), 10_000 - 40);
  assert.equal(await pauseAfter(400), 100 * 400 - 400);
});

/** A keeper whose writes a test ends. */
function writing() {
  const clock = createFakeClock(), writes: PromiseWithResolvers<void>[] = [];
  const keeper = createKeeper({
    file: {
      path: "state",
      read: () => assert.fail("the keeper reads nothing"),
      write() {
        writes.push(Promise.withResolvers());
        return writes.at(-1)!.promise;
      },
    },
    origin: { node: "here", source: "kube", proxyName: "" },
    objects: () => [service("default/web")],
    clock,
    logger: silentLogger,
  }, () => {});
  const until = async (count: number) => {
    while (writes.length < count) {
      await settled();
      clock.advance(0);
    }
  };
  return { clock, keeper, writes, until };
}

Deno.test("a stop writes a change once the write under way has ended, and nothing afterwards", async () => {
  const { clock, keeper, writes, until } = writing();
  keeper.start();
  clock.advance(1_000);
  await until(1);
  keeper.changed();
  const stopped = keeper.stop();
  await settled();
  assert.equal(writes.length, 1);
  writes[0]!.resolve();
  await until(2);
  writes[1]!.resolve();
  await stopped;
  keeper.changed();
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a stop takes the place of a write that is due", async () => {
  const { clock, keeper, writes, until } = writing();
  keeper.start();
  const stopped = keeper.stop();
  await until(1);
  writes[0]!.resolve();
  await stopped;
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a stop waits 2 s for a disk that hangs", async () => {
  const { clock, keeper, until } = writing();
  keeper.start();
  clock.advance(1_000);
  await until(1);
  let isStopped = false;
  const stopped = keeper.stop().then(() => isStopped = true);
  clock.advance(1_999);
  await settled();
  assert.equal(isStopped, false);
  clock.advance(1);
  await stopped;
});
