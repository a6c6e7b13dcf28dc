import assert from "node:assert/strict";
import { createPatience } from "../../../../sources/kubernetes/patience.ts";
import type { FakeApiServer } from "../../../fakes/api_server.ts";
import { createFakeClock, type FakeClock, settled } from "../../../fakes/clock.ts";
import { service, type SourceUnderTest, withSource } from "./source_under_test.ts";

const KINDS = ["Service"] as const;
/** A watch of 450 s, which is in the middle where the random number is, and half a minute. */
const UNTAUGHT_MS = 480_000;
const requests = (server: FakeApiServer, verb: string) => server.requests.filter((request) => request.verb === verb);

/** Resolves once a watch is open that may be silent for so long from now on. */
async function silentFor(clock: FakeClock, ms: number): Promise<void> {
  while (!clock.pending().includes(ms)) await settled();
}

/** Sends a bookmark, and returns when it has been read. */
async function bookmarked({ server, hears }: SourceUnderTest, name: string): Promise<void> {
  server.bookmark();
  server.apply(service(name));
  await hears(`set Service default/${name} ${server.revision()}`);
}

Deno.test("where bookmarks have come and come no more, the watch is renewed, long before its end", async () => {
  const clock = createFakeClock();
  await withSource((server) => server.apply(service("web")), async (source) => {
    const { server, hears, logs, logged } = source;
    await silentFor(clock, UNTAUGHT_MS);
    clock.advance(60_000);
    await bookmarked(source, "one");
    server.deafen();
    server.apply(service("missed"));
    // 60 s between bookmarks, times 1.5 to 2.5: in the middle where the random number is.
    await clock.advanceSettled(119_000);
    assert.deepEqual(logged, []);
    await clock.advanceSettled(1_000);
    await logs("watch services at");
    assert.match(logged[0]!, /went silent for 120 s; the request is repeated/);
    await clock.advanceSettled(10);
    await hears(`set Service default/missed ${server.revision()}`);
    assert.equal(requests(server, "list").length, 1);
  }, { clock, kinds: KINDS });
});

Deno.test("a server that has come to no such version tells nothing: everything is listed anew, and all of it told", async () => {
  const clock = createFakeClock();
  await withSource((server) => {
    for (let i = 0; i < 20; i++) server.apply(service("web"));
    server.apply(service("lost"));
  }, async (source) => {
    const { server, hears, logs, said } = source;
    await silentFor(clock, UNTAUGHT_MS);
    clock.advance(60_000);
    await bookmarked(source, "one");
    server.restore(20);
    // Of the version that is known, and another.
    server.apply(service("web"));
    server.dropWatches("broken");
    await logs("got no answer");
    clock.advance(10);
    await silentFor(clock, 120_000);
    const before = said.length;
    await clock.advanceSettled(120_000);
    await logs("not even the bookmarks that it used to");
    await hears("delete Service default/lost");
    await logs("services went back from resourceVersion");
    await source.until(() => said.slice(before).includes("set Service default/web 21"));
    await silentFor(clock, UNTAUGHT_MS);
    server.apply(service("later"));
    await hears("set Service default/later 22");
  }, { clock, kinds: KINDS, server: { silentAhead: true } });
});

Deno.test("without bookmarks, a watch may be silent for its own length and half a minute", () => {
  const patience = createPatience({ clock: createFakeClock(), random: () => 0.5, fixedMs: undefined });
  patience.begin(450);
  assert.equal(patience.silenceMs(), 480_000);
  patience.heard(false);
  assert.equal(patience.silenceMs(), 480_000);
  assert.equal(patience.wasUnheard(), false);
});

Deno.test("bookmarks that come close together do not make it impatient, and rare ones not more patient than the watch is long", () => {
  const clock = createFakeClock();
  const patience = createPatience({ clock, random: () => 0, fixedMs: undefined });
  patience.begin(300);
  clock.advance(100);
  patience.heard(true);
  assert.equal(patience.silenceMs(), 5_000);
  clock.advance(250_000);
  patience.heard(true);
  assert.equal(patience.silenceMs(), 330_000);
});

Deno.test("an unheard watch counts once: what sends no bookmarks any more is not listed again and again", () => {
  const clock = createFakeClock();
  const patience = createPatience({ clock, random: () => 0, fixedMs: undefined });
  patience.begin(300);
  clock.advance(60_000);
  patience.heard(true);
  assert.equal(patience.wasUnheard(), false);
  patience.begin(300);
  assert.equal(patience.silenceMs(), 90_000);
  assert.equal(patience.wasUnheard(), true);
  patience.begin(300);
  assert.equal(patience.silenceMs(), 330_000);
  assert.equal(patience.wasUnheard(), false);
});
