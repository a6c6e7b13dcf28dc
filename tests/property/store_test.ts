import assert from "node:assert/strict";
import fc from "fast-check";
import { KINDS } from "../../core/objects/cluster_object.ts";
import { createAnswers, type Position, type Subscription } from "../../kpng/server/answers.ts";
import { answerOf } from "../unit/kpng/server/served.ts";
import { createStore, type Store } from "../../kpng/store/mod.ts";
import { createFrameReader } from "../../kpng/transport/grpc.ts";
import { OP_ITEM, SETS } from "../../kpng/messages/messages.ts";
import { createReceiver } from "../../kpng/receiving/mod.ts";
import { SYNC } from "../../kpng/views/operations.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../fakes/cluster_objects.ts";
import { anEvent, apply, subscriptions } from "./cluster_events.ts";
import { sayProblems } from "../fakes/problems.ts";
import { runs } from "./runs.ts";

/** A watcher with the bytes of its sets' entries. */
function createWatcher(subscription: Subscription) {
  const entries = new Map<string, string>();
  let position: Position | undefined;
  let resets = 0;
  let operations: Uint8Array<ArrayBuffer>[] = [];
  return {
    subscription,
    entries,
    resets: () => resets,
    /** The operations received last. */
    last: () => operations,
    ask(answers: ReturnType<typeof createAnswers>) {
      const answer = answerOf(answers, position, subscription);
      position = answer.position;
      operations = [];
      const frames = createFrameReader(1 << 20);
      for (const part of answer.parts) {
        for (let i = 0, chunk = part.at(i); chunk !== undefined; chunk = part.at(++i)) {
          operations.push(...frames.push(chunk));
        }
      }
      for (const bytes of operations) {
        const operation = OP_ITEM.decode(bytes);
        if (operation.reset !== undefined) {
          resets++;
          entries.clear();
        }
        const { ref, bytes: content } = operation.set ?? {};
        if (ref !== undefined) {
          const key = `${ref.set} ${ref.path}`;
          assert.notEqual(entries.get(key), String(content), "nothing is sent twice");
          entries.set(key, String(content));
        }
        if (operation.delete !== undefined) {
          const { set, path } = operation.delete;
          assert.ok(entries.delete(`${set} ${path}`), "a deleted entry existed");
        }
      }
    },
  };
}

const onProblems = sayProblems((where, message) => assert.fail(`${where}: ${message}`));

function syncedStore(leastHistory?: number) {
  const clock = createFakeClock();
  const store = createStore({ clock, onProblems, leastHistory });
  for (const kind of KINDS) store.synced(kind);
  return { clock, store };
}

/** The state that a new watcher receives. */
function fresh(store: Store, clock: ReturnType<typeof createFakeClock>, subscription: Subscription) {
  const watcher = createWatcher(subscription);
  watcher.ask(createAnswers(store, clock));
  return watcher;
}

/**
 * When a change was triggered travels with the next change of an endpoint, and is no difference on its own: of endpoints
 * the paths are compared, which have the hash of all else.
 */
function withoutTimes(entries: ReadonlyMap<string, string>): string[] {
  const isEndpoint = (key: string) =>
    [SETS.EndpointsSet, SETS.GlobalEndpointInfos].some((set) => key.startsWith(`${set} `));
  return Array.from(entries, ([key, content]) => isEndpoint(key) ? key : `${key} ${content}`).sort();
}

Deno.test("after any history, watchers that applied differences have the same state as a new one", () => {
  fc.assert(
    fc.property(fc.array(anEvent, { maxLength: 60 }), fc.constantFrom(0, 10, 1000), (events, leastHistory) => {
      const { clock, store } = syncedStore(leastHistory);
      const answers = createAnswers(store, clock);
      const watchers = subscriptions.map(createWatcher);
      for (const event of events) {
        if (event.type === "ask") watchers[event.watcher]!.ask(answers);
        else apply(store, event);
        clock.advance(5);
      }
      for (const watcher of watchers) {
        watcher.ask(answers);
        assert.deepEqual(
          withoutTimes(watcher.entries),
          withoutTimes(fresh(store, clock, watcher.subscription).entries),
        );
        watcher.ask(answers);
        assert.equal(watcher.last().length, 0, "a watcher that is up to date receives nothing");
      }
    }),
    runs(100),
  );
});

Deno.test("between two Sluices nothing is lost: the second store equals the first, even across resets", () => {
  fc.assert(
    fc.property(fc.array(anEvent, { maxLength: 40 }), fc.nat({ max: 100 }), (events, leastHistory) => {
      const { clock, store } = syncedStore(leastHistory);
      const second = createStore({ clock, onProblems });
      const receiver = createReceiver({ sink: second, nodeName: "node-1", inFull: true });
      const answers = createAnswers(store, clock);
      const watcher = createWatcher(subscriptions[0]!);
      const relay = () => {
        watcher.ask(answers);
        for (const bytes of [...watcher.last(), SYNC]) receiver.receive(bytes);
      };
      for (const event of events) {
        if (event.type === "ask") relay();
        else apply(store, event);
      }
      relay();
      // A slice without endpoints is not sent; its ports and times come with endpoints.
      const content = (store: Store) => {
        const { services, scoped } = store.state();
        return {
          scoped,
          services: services.map(({ service, slices }) => ({
            service,
            slices: slices.filter(({ endpoints }) => endpoints.length > 0).map((slice) => ({
              ...slice,
              triggerTimeMs: 0,
            })),
          })).filter(({ service, slices }) => service !== undefined || slices.length > 0),
        };
      };
      const plain = (store: Store) =>
        JSON.parse(JSON.stringify(content(store), (key, value) => {
          return key === "target" || key === "details" || key === "origin" ? undefined : value;
        }));
      assert.deepEqual(plain(second), plain(store));
    }),
    runs(100),
  );
});

Deno.test("a watcher that lags too far gets a full snapshot; one that keeps up never does, regardless of the others", () => {
  const { clock, store } = syncedStore(50);
  const answers = createAnswers(store, clock);
  const quick = createWatcher(subscriptions[0]!);
  const lagging = Array.from({ length: 100 }, () => createWatcher(subscriptions[0]!));
  store.set(service("default/web"));
  for (const watcher of [quick, ...lagging]) watcher.ask(answers);
  for (let i = 0; i < 500; i++) {
    store.set(endpointSlice("default/web-1", [endpoint(`10.1.${i >> 8}.${i & 255}`)]));
    clock.advance(5);
    quick.ask(answers);
  }
  for (const watcher of lagging) watcher.ask(answers);
  assert.equal(quick.resets(), 1);
  assert.deepEqual(lagging.map((watcher) => watcher.resets()), lagging.map(() => 2));
  for (const watcher of lagging) assert.deepEqual([...watcher.entries], [...quick.entries]);
});

Deno.test("the history is bounded by the size of the current state", () => {
  const { clock, store } = syncedStore(20);
  for (let i = 0; i < 1000; i++) {
    store.set(endpointSlice("default/web-1", [endpoint(`10.1.${i >> 8}.${i & 255}`)]));
    clock.advance(5);
  }
  const newest = store.revision();
  const known = Array.from({ length: newest }, (_, revision) => store.since(revision) !== undefined);
  // Each replaced version weighs three: the service, its slice and its endpoint.
  assert.equal(known.filter((isKnown) => isKnown).length, Math.floor(20 / 3));
  assert.deepEqual(known.slice(-6), [true, true, true, true, true, true]);
});

Deno.test("an undone change is no change, and nothing is sent before everything is synced", () => {
  const clock = createFakeClock();
  const store = createStore({ clock, onProblems });
  let calls = 0;
  store.subscribe(() => calls++);
  store.set(service("default/web"));
  clock.advance(100);
  assert.deepEqual([store.ready(), calls], [false, 0]);
  for (const kind of KINDS) store.synced(kind);
  clock.advance(100);
  assert.deepEqual([store.ready(), calls], [true, 1]);
  const before = store.revision();
  store.set(service("default/web", { affinitySeconds: 5 }));
  store.set(service("default/web"));
  clock.advance(100);
  assert.deepEqual([store.revision(), calls], [before, 1]);
});
