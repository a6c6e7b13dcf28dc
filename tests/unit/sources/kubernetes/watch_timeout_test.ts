import assert from "node:assert/strict";
import { createWatchTimeout } from "../../../../sources/kubernetes/watch.ts";
import type { FakeApiServer } from "../../../fakes/api_server.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { service, type SourceUnderTest, withSource } from "./source_under_test.ts";
import { until } from "../../../fakes/wait.ts";

const KINDS = ["Service"] as const;
/** A watch of 450 s, in the middle of the range like the random number, plus half a minute. */
const UNTAUGHT_MS = 480_000;
const requests = (server: FakeApiServer, verb: string) => server.requests.filter((request) => request.verb === verb);

/** Resolves when a watch is open that may be silent this long from now on. */
async function silentFor(clock: FakeClock, ms: number): Promise<void> {
  await until(() => clock.pending().includes(ms));
}

/** Sends a bookmark, and returns when it has been read. */
async function bookmarked({ server, receives }: SourceUnderTest, name: string): Promise<void> {
  server.bookmark();
  server.apply(service(name));
  await receives(`set Service default/${name} ${server.revision()}`);
}

Deno.test("the silence that is allowed follows from the longest time between two bookmarks", () => {
  const clock = createFakeClock(), timeout = createWatchTimeout({ clock, random: () => 0.5, fixedMs: undefined });
  timeout.begin(450);
  for (
    const [gapMs, silenceMs] of [[10_000, 20_000], [60_000, 120_000], [60_000, 120_000], [10_000, 120_000]] as const
  ) {
    clock.advance(gapMs);
    timeout.received(true);
    assert.equal(timeout.silenceMs(), silenceMs);
  }
});

Deno.test("if bookmarks stop, the watch is renewed long before its end", async () => {
  const clock = createFakeClock();
  await withSource((server) => server.apply(service("web")), async (source) => {
    const { server, receives, logs, logged } = source;
    await silentFor(clock, UNTAUGHT_MS);
    clock.advance(60_000);
    await bookmarked(source, "one");
    server.deafen();
    server.apply(service("missed"));
    // 60 s between bookmarks, times 1.5 to 2.5: in the middle like the random number.
    await clock.advanceSettled(119_000);
    assert.deepEqual(logged, []);
    await clock.advanceSettled(1_000);
    await logs("watch services at");
    assert.match(logged[0]!, /went silent for 120 s/);
    await clock.advanceSettled(10);
    await receives(`set Service default/missed ${server.revision()}`);
    assert.equal(requests(server, "list").length, 1);
  }, { clock, kinds: KINDS });
});

Deno.test("a watch from a future version that receives nothing causes a relist that reports everything", async () => {
  const clock = createFakeClock();
  await withSource((server) => {
    for (let i = 0; i < 20; i++) server.apply(service("web"));
    server.apply(service("lost"));
  }, async (source) => {
    const { server, receives, logs, received } = source;
    await silentFor(clock, UNTAUGHT_MS);
    clock.advance(60_000);
    await bookmarked(source, "one");
    server.restore(20);
    // One with the known version, and one with another.
    server.apply(service("web"));
    server.dropWatches("broken");
    await logs("got no answer");
    clock.advance(10);
    await silentFor(clock, 120_000);
    const before = received.length;
    await clock.advanceSettled(120_000);
    await logs("not even bookmarks");
    await receives("delete Service default/lost");
    await logs("resourceVersion went back, relisting kind=Service");
    await source.until(() => received.slice(before).includes("set Service default/web 21"));
    await silentFor(clock, UNTAUGHT_MS);
    server.apply(service("later"));
    await receives("set Service default/later 22");
  }, { clock, kinds: KINDS, server: { silentAhead: true } });
});

Deno.test("a watch that breaks off before its first bookmark is no reason for a relist", async () => {
  const clock = createFakeClock();
  await withSource((server) => server.apply(service("web")), async (source) => {
    const { server, receives } = source;
    await silentFor(clock, UNTAUGHT_MS);
    clock.advance(60_000);
    await bookmarked(source, "one");
    for (let time = 0; time < 3; time++) {
      const before = requests(server, "watch").length;
      server.dropWatches("broken");
      await until(() => {
        const isWatched = requests(server, "watch").length > before;
        if (!isWatched) clock.advance(10);
        return isWatched;
      });
      await silentFor(clock, 120_000);
    }
    server.apply(service("two"));
    await receives(`set Service default/two ${server.revision()}`);
    assert.equal(requests(server, "list").length, 1);
  }, { clock, kinds: KINDS });
});

Deno.test("without bookmarks, a watch may be silent for its duration and half a minute", () => {
  const timeout = createWatchTimeout({ clock: createFakeClock(), random: () => 0.5, fixedMs: undefined });
  timeout.begin(450);
  assert.equal(timeout.silenceMs(), 480_000);
  timeout.received(false);
  assert.equal(timeout.silenceMs(), 480_000);
  assert.equal(timeout.missedBookmarks(), false);
});

Deno.test("frequent bookmarks do not shorten the timeout below its minimum, and rare ones do not extend it beyond the watch", () => {
  const clock = createFakeClock();
  const timeout = createWatchTimeout({ clock, random: () => 0, fixedMs: undefined });
  timeout.begin(300);
  clock.advance(100);
  timeout.received(true);
  assert.equal(timeout.silenceMs(), 5_000);
  clock.advance(250_000);
  timeout.received(true);
  assert.equal(timeout.silenceMs(), 330_000);
});

Deno.test("missed bookmarks count once: a server without bookmarks is not relisted repeatedly", () => {
  const clock = createFakeClock();
  const timeout = createWatchTimeout({ clock, random: () => 0, fixedMs: undefined });
  timeout.begin(300);
  clock.advance(60_000);
  timeout.received(true);
  assert.equal(timeout.missedBookmarks(), false);
  timeout.begin(300);
  assert.equal(timeout.silenceMs(), 90_000);
  assert.equal(timeout.missedBookmarks(), true);
  timeout.begin(300);
  assert.equal(timeout.silenceMs(), 330_000);
  assert.equal(timeout.missedBookmarks(), false);
});
