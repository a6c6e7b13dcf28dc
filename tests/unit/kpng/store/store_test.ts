import assert from "node:assert/strict";
import { KINDS } from "../../../../core/objects/cluster_object.ts";
import { createStore } from "../../../../kpng/store/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";

Deno.test("a slice that moves to another service leaves the one before", () => {
  const store = createStore({ clock: createFakeClock(), onProblems: () => {} });
  for (const kind of KINDS) store.synced(kind);
  store.set(service("default/web"));
  store.set(service("default/api"));
  const endpoints = [endpoint("10.1.0.1")];
  const slicesOf = () => Object.fromEntries(store.state().services.map(({ name, slices }) => [name, slices.length]));
  store.set(endpointSlice("default/x-1", endpoints, { serviceName: "web" }));
  assert.deepEqual(slicesOf(), { api: 0, web: 1 });
  store.set(endpointSlice("default/x-1", endpoints, { serviceName: "api" }));
  assert.deepEqual(slicesOf(), { api: 1, web: 0 });
  store.delete({ kind: "EndpointSlice", namespace: "default", name: "x-1" });
  assert.deepEqual(slicesOf(), { api: 0, web: 0 });
});

Deno.test("nothing is announced before the state is complete, and everything then is one revision", () => {
  const clock = createFakeClock(), store = createStore({ clock, onProblems: () => {} }), announced: number[] = [];
  store.subscribe(() => announced.push(store.revision()));
  store.set(service("default/web"));
  clock.advance(1_000);
  assert.deepEqual(announced, []);
  for (const kind of KINDS) store.synced(kind);
  clock.advance(1_000);
  store.set(service("default/api"));
  store.delete({ kind: "Service", namespace: "default", name: "web" });
  clock.advance(1_000);
  assert.deepEqual(announced.length, 2);
  const empty = createStore({ clock, onProblems: () => {} });
  let isComplete = false;
  empty.subscribe(() => isComplete = true);
  for (const kind of KINDS) empty.synced(kind);
  clock.advance(1_000);
  assert.ok(isComplete, "watchers learn that there is nothing");
});

Deno.test("a list that the source sends again makes no new revision unless something has changed", () => {
  const clock = createFakeClock(), store = createStore({ clock, onProblems: () => {} }), announced: number[] = [];
  store.set(service("default/web"));
  for (const kind of KINDS) store.synced(kind);
  clock.advance(1_000);
  const revision = store.revision();
  store.subscribe(() => announced.push(store.revision()));
  store.reset("Service");
  store.set(service("default/web"));
  store.synced("Service");
  clock.advance(1_000);
  assert.deepEqual([store.revision(), announced], [revision, []]);
  store.reset("Service");
  store.synced("Service");
  clock.advance(1_000);
  assert.deepEqual(announced, [revision + 1], "the service is gone");
});
