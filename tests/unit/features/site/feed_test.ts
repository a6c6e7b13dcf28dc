/** How a site's feed chooses between the leader and the API server. */
import assert from "node:assert/strict";
import type { LinkEvent, ReportLink, SourceSink } from "../../../../core/objects/mod.ts";
import { createFeed } from "../../../../features/site/feed.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";

const LEADER = { node: "node-2", address: "10.0.0.2:12090", certificate: "", proof: "" };
const PATIENCE_MS = 10_000;

/** A feed whose sources are driven by hand; `taken` returns what has happened since the last call. */
function createFedNode() {
  const stop = new AbortController(), clock = createFakeClock(), happened: string[] = [];
  const note = (what: string) => () => void happened.push(what);
  /** The link and the sink of each source that has been opened, by its number. */
  const opened: { readonly name: string; readonly link: ReportLink; sink?: SourceSink }[] = [];
  let failure: Error | undefined;
  const open = (name: string, link: ReportLink) => {
    happened.push(`open ${name}`);
    const source: typeof opened[number] = { name, link };
    opened.push(source);
    return {
      run(sink: SourceSink, signal: AbortSignal) {
        source.sink = sink;
        signal.addEventListener("abort", note(`end ${name}`));
        return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    };
  };
  const feed = createFeed({
    sink: {
      set: ({ kind, name }) => happened.push(`set ${kind} ${name}`),
      delete: ({ kind, name }) => happened.push(`delete ${kind} ${name}`),
      reset: (kind) => happened.push(`reset ${kind}`),
      synced: (kind) => happened.push(`synced ${kind}`),
      problems: (scope, list) => happened.push(`problems of ${scope}: ${list.map(({ code }) => code)}`),
    },
    openApi: (link) => open("api", link),
    openLeader: ({ node }, link) => failure ? Promise.reject(failure) : Promise.resolve(open(node, link)),
    patienceMs: () => PATIENCE_MS,
    onLost: note("lost"),
    onFollowed: note("followed"),
    onFrom: () => happened.push(`from ${feed.from()}`),
    onLink: (stream, server, { type }) => happened.push(`link ${stream} ${server} ${type}`),
    clock,
    logger: silentLogger,
    signal: stop.signal,
  });
  return {
    feed,
    clock,
    stop,
    follow: (leader = LEADER) => feed.enter({ kind: "follower", leader, isConfirmed: true }),
    fail: (error: Error | undefined) => void (failure = error),
    source: (name: string) => opened.findLast((one) => one.name === name)!,
    say: (name: string, event: LinkEvent) => opened.findLast((one) => one.name === name)!.link("services", name, event),
    async taken() {
      await settled();
      return happened.splice(0);
    },
  };
}

const FAILED: LinkEvent = { type: "failed", error: "refused", retryInMs: 1_000 };

for (const [type, seen] of [["answered", "followed"], ["received", "followed"], ["failed", "lost"]] as const) {
  Deno.test(`a link of the leader that has ${type} means that it is ${seen}`, async () => {
    const { follow, say, taken, feed, stop } = createFedNode();
    follow();
    assert.deepEqual(await taken(), ["open node-2"]);
    say("node-2", type === "failed" ? FAILED : { type });
    const from = seen === "followed" ? ["from leader"] : [];
    assert.deepEqual(await taken(), [...from, seen, `link services node-2 ${type}`]);
    assert.equal(feed.from(), seen === "followed" ? "leader" : undefined);
    stop.abort();
    await feed.ended;
  });
}

Deno.test("a leader is watched once, and anew when its address or certificate has changed, but not for a new proof", async () => {
  const { follow, taken, stop } = createFedNode();
  follow();
  assert.deepEqual(await taken(), ["open node-2"]);
  follow();
  follow({ ...LEADER, proof: "later" });
  assert.deepEqual(await taken(), []);
  follow({ ...LEADER, address: "10.0.0.2:1" });
  assert.deepEqual(await taken(), ["end node-2", "open node-2"]);
  follow({ ...LEADER, address: "10.0.0.2:1", certificate: "new" });
  assert.deepEqual(await taken(), ["end node-2", "open node-2"]);
  stop.abort();
  assert.deepEqual(await taken(), ["end node-2"]);
});

Deno.test("a leader without an address is lost at once", async () => {
  const { follow, taken, stop } = createFedNode();
  follow({ ...LEADER, address: "" });
  assert.deepEqual(await taken(), ["lost"]);
  stop.abort();
});

Deno.test("a node that leads or takes no part watches the API server alone, and opens it once", async () => {
  const { feed, follow, say, taken, clock, stop } = createFedNode();
  follow();
  await taken();
  feed.enter({ kind: "leader", isConfirmed: true });
  assert.deepEqual(await taken(), ["end node-2", "open api", "from api"]);
  assert.deepEqual(clock.pending(), [], "it waits for no leader");
  feed.enter({ kind: "alone" });
  feed.enter({ kind: "undecided" });
  say("node-2", { type: "answered" });
  assert.deepEqual([await taken(), clock.pending()], [[], []]);
  stop.abort();
  assert.deepEqual(await taken(), ["end api"]);
  follow();
  feed.standBy();
  assert.deepEqual(await taken(), [], "the end is the end");
});

Deno.test("if no leader answers in time, the API server is watched until one does", async () => {
  const { feed, follow, say, taken, clock, stop } = createFedNode();
  feed.enter({ kind: "undecided" });
  clock.advance(PATIENCE_MS / 2);
  follow();
  assert.deepEqual(await taken(), ["open node-2"]);
  clock.advance(PATIENCE_MS / 2 - 1);
  assert.deepEqual(await taken(), []);
  clock.advance(1);
  // The leader sends its whole state again, since the API server's objects may have replaced it.
  assert.deepEqual(await taken(), ["end node-2", "open node-2", "open api", "from api"]);
  say("node-2", FAILED);
  assert.deepEqual(await taken(), ["lost"], "the link in use is that of the API server");
  say("node-2", { type: "answered" });
  assert.deepEqual(await taken(), ["from leader", "end api", "followed"]);
  assert.deepEqual(clock.pending(), []);
  say("node-2", FAILED);
  assert.deepEqual([await taken(), clock.pending()], [["lost"], [PATIENCE_MS]]);
  stop.abort();
  assert.deepEqual([await taken(), clock.pending()], [["end node-2"], []]);
});

Deno.test("a node that stands by watches the API server in addition", async () => {
  const { feed, follow, say, taken, stop } = createFedNode();
  follow();
  say("node-2", { type: "answered" });
  await taken();
  feed.standBy();
  feed.standBy();
  assert.deepEqual((await taken()).sort(), [
    "end node-2",
    "from api",
    "link services node-2 ended",
    "open api",
    "open node-2",
  ]);
  stop.abort();
});

Deno.test("a leader that cannot be opened is tried again after two seconds, and its link ends when it can", async () => {
  const { follow, fail, taken, clock, stop } = createFedNode();
  fail(new Error("no certificate"));
  follow();
  assert.deepEqual(await taken(), ["lost", "link open  failed"]);
  clock.advance(1_999);
  assert.deepEqual(await taken(), []);
  clock.advance(1);
  assert.deepEqual(await taken(), ["lost", "link open  failed"]);
  fail(undefined);
  clock.advance(2_000);
  assert.deepEqual(await taken(), ["open node-2", "link open  ended"]);
  stop.abort();
});

Deno.test("the objects of a source stay until the next one has sent its own, and late ones of the source before have no effect", async () => {
  const { feed, follow, source, say, taken, clock, stop } = createFedNode();
  follow();
  await taken();
  source("node-2").sink!.reset("Service");
  source("node-2").sink!.set(service("default/web"));
  source("node-2").sink!.set(service("default/api"));
  source("node-2").sink!.problems("leader", [{ code: "source-unreachable", subject: "services", detail: "refused" }]);
  assert.deepEqual(await taken(), [
    ...["reset Service", "reset Service", "set Service web", "set Service api"],
    "problems of leader: source-unreachable",
  ]);
  const former = source("node-2").sink!;
  clock.advance(PATIENCE_MS);
  assert.deepEqual(await taken(), ["end node-2", "problems of leader: ", "open node-2", "open api", "from api"]);
  former.set(service("default/late"));
  former.problems("leader", []);
  assert.deepEqual(await taken(), []);

  source("api").sink!.set(service("default/web"));
  source("api").sink!.synced("EndpointSlice");
  source("api").sink!.synced("EndpointSlice");
  assert.deepEqual(await taken(), [
    ...["reset Service", "set Service web"],
    ...["reset EndpointSlice", "synced EndpointSlice", "synced EndpointSlice"],
  ]);
  // The leader takes over with its first object, even while the API server is still watched.
  source("node-2").sink!.set(service("default/web"));
  source("api").sink!.set(service("default/late"));
  assert.deepEqual(await taken(), ["reset Service", "set Service web"]);
  say("node-2", { type: "answered" });
  assert.equal(feed.from(), "leader");
  stop.abort();
});
