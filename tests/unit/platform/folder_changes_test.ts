import assert from "node:assert/strict";
import { silentLogger, watchChanges } from "../../../platform/mod.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

/** Watches the folder of this file, whose events the test makes, with 10 ms of quiet and a poll every minute. */
async function watching() {
  const clock = createFakeClock(), stop = new AbortController(), folder = new URL(".", import.meta.url).pathname;
  const events: ReturnType<typeof openWatch>[] = [];
  function openWatch() {
    let push = (_: Deno.FsEvent) => {}, end = () => {};
    const waiting = () =>
      new Promise<IteratorResult<Deno.FsEvent>>((resolve) => {
        push = (value) => resolve({ value, done: false });
        end = () => resolve({ value: undefined, done: true });
      });
    const watch = { push: (event: Deno.FsEvent) => push(event), end: () => end(), isClosed: false };
    return {
      watch,
      close() {
        watch.isClosed = true;
        end();
      },
      [Symbol.asyncIterator]: () => ({ next: waiting }),
    };
  }
  const changes = watchChanges({
    ...{ clock, logger: silentLogger, signal: stop.signal, quietMs: 10, pollMs: 60_000 },
    openWatch() {
      const opened = openWatch();
      events.push(opened);
      return opened;
    },
  });
  await changes.watch(folder);
  let seen: string[] | undefined;
  return {
    ...{ clock, stop, changes, folder },
    watches: () => events.map(({ watch }) => watch.isClosed ? "closed" : "open"),
    async touch(name: string, kind: Deno.FsEvent["kind"] = "modify") {
      events.at(-1)!.watch.push({ kind, paths: [`${folder}${name}`] });
      await settled();
    },
    /** Ends the last watch by itself, as the runtime does after an error. */
    async lose() {
      events.at(-1)!.watch.end();
      await settled();
    },
    /** Waits for the next changes; `seen` returns them once they have come. */
    async next() {
      seen = undefined;
      void changes.next().then((names) => seen = [...names]);
      await settled();
    },
    async seen(afterMs: number) {
      clock.advance(afterMs);
      await settled();
      return seen;
    },
  };
}

Deno.test("changes come together, 10 ms after the last one, each once; reading a file is none", async () => {
  const { touch, next, seen } = await watching();
  await next();
  assert.deepEqual(await seen(10), [], "the watch itself");
  await next();
  await touch("a");
  assert.equal(await seen(9), undefined);
  await touch("b");
  await touch("read", "access");
  assert.equal(await seen(9), undefined);
  assert.deepEqual(await seen(1), ["a", "b"]);
  await touch("c");
  assert.deepEqual(await seen(10), ["a", "b"]);
  await next();
  assert.deepEqual(await seen(0), ["c"], "it happened since the last call");
});

Deno.test("changes that keep coming are reported 100 ms after the first one, each time", async () => {
  const { touch, next, seen } = await watching();
  await next();
  await seen(10);
  for (let times = 0; times < 2; times++) {
    await next();
    for (let i = 0; i < 20; i++) {
      await touch(`${i}`);
      if (await seen(5) !== undefined) {
        assert.equal(i, 19);
        break;
      }
    }
    assert.equal((await seen(0))?.length, 20);
  }
});

Deno.test("without an event, a poll is due after a minute, which does not cut the quiet time short", async () => {
  const { touch, next, seen } = await watching();
  await next();
  await seen(10);
  await next();
  assert.equal(await seen(59_999), undefined);
  await touch("a");
  assert.equal(await seen(1), undefined);
  assert.deepEqual(await seen(9), ["a"]);
  await next();
  assert.deepEqual(await seen(60_000), []);
});

Deno.test("one folder is watched, once, until the end", async () => {
  const { changes, folder, watches, stop } = await watching();
  await changes.watch(folder);
  assert.deepEqual(watches(), ["open"]);
  await changes.watch(`${folder}..`);
  assert.deepEqual(watches(), ["closed", "open"]);
  await changes.watch(`${folder}no such folder`);
  assert.deepEqual(watches(), ["closed", "closed"]);
  await changes.watch(folder);
  stop.abort();
  assert.deepEqual(watches(), ["closed", "closed", "closed"]);
  assert.deepEqual([...await changes.next()], []);
});

Deno.test("a watch that has ended by itself is opened again", async () => {
  const { changes, folder, watches, lose, next, seen } = await watching();
  await next();
  await seen(10);
  await lose();
  await changes.watch(folder);
  assert.deepEqual(watches(), ["open", "open"]);
  await next();
  assert.deepEqual(await seen(10), [], "what has changed in between is looked for");
});

Deno.test("another folder at the same path is watched in place of the one before", async () => {
  const { changes, watches } = await watching();
  const parent = await Deno.makeTempDir(), folder = `${parent}/now`;
  try {
    for (const name of ["now", "next"]) Deno.mkdirSync(`${parent}/${name}`);
    await changes.watch(folder);
    Deno.renameSync(`${parent}/next`, folder);
    await changes.watch(folder);
    assert.deepEqual(watches(), ["closed", "closed", "open"]);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
});
