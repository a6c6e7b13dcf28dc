import assert from "node:assert/strict";
import type { EndpointSlice } from "../../../../core/objects/cluster_object.ts";
import { createEndpointSliceCache } from "../../../../core/tracking/endpoint_slice_cache.ts";
import { endpoint, endpointSlice, terminatingEndpoint } from "../../../fakes/cluster_objects.ts";

function cacheOf(...slices: EndpointSlice[]) {
  const cache = createEndpointSliceCache();
  for (const slice of slices) cache.set(slice);
  return cache;
}

const targets = (cache: ReturnType<typeof cacheOf>, service = "default/web", port = "http") =>
  cache.endpointsOf(service, port, "tcp").map(({ target }) => target);

Deno.test("the endpoints of a service come from all its slices, sorted", () => {
  const cache = cacheOf(
    endpointSlice("default/web-b", [endpoint("10.1.0.3"), endpoint("10.1.0.1")]),
    endpointSlice("default/web-a", [endpoint("10.1.0.2")]),
    endpointSlice("default/db-a", [endpoint("10.1.0.9")]),
    endpointSlice("other/web-a", [endpoint("10.1.0.8")]),
  );
  assert.deepEqual(targets(cache), ["10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080"]);
  assert.deepEqual(cache.slicesOf("default/web").map(({ name }) => name), ["web-a", "web-b"]);
});

Deno.test("a service port gets the endpoints of slice ports with its name and protocol, regardless of their numbers", () => {
  const cache = cacheOf(
    endpointSlice("default/web-a", [endpoint("10.1.0.1")], {
      ports: [
        { name: "http", protocol: "tcp", port: 8080 },
        { name: "http", protocol: "udp", port: 8081 },
        { name: "metrics", protocol: "tcp", port: 9090 },
      ],
    }),
    endpointSlice("default/web-b", [endpoint("10.1.0.2")], { ports: [{ name: "http", protocol: "tcp", port: 8000 }] }),
    endpointSlice("default/web-c", [endpoint("10.1.0.3")], { ports: [] }),
  );
  assert.deepEqual(targets(cache), ["10.1.0.1:8080", "10.1.0.2:8000"]);
  assert.deepEqual(targets(cache, "default/web", "metrics"), ["10.1.0.1:9090"]);
  assert.deepEqual(targets(cache, "default/web", ""), []);
});

Deno.test("IPv6 targets are bracketed", () => {
  const cache = cacheOf(endpointSlice("default/web-a", [endpoint("fd00::1")], { family: "IPv6" }));
  assert.deepEqual(targets(cache), ["[fd00::1]:8080"]);
});

const ADDRESS = "10.1.0.1";
const ready = (nodeName: string) => endpoint(ADDRESS, { nodeName });
const unready = (nodeName: string) => endpoint(ADDRESS, { nodeName, ready: false, serving: false });
const terminating = (nodeName: string) => terminatingEndpoint(ADDRESS, { nodeName });
const ended = (nodeName: string) => terminatingEndpoint(ADDRESS, { nodeName, serving: false });
const readyAndTerminating = (nodeName: string) => endpoint(ADDRESS, { nodeName, terminating: true });

for (
  const [rule, loser, winner] of [
    ["the one that is not terminating, on this node or not", terminating("here"), ready("other")],
    ["the one that is not terminating, ready or not", terminating("here"), unready("other")],
    [
      "the one that is not terminating, even if the other is marked ready",
      readyAndTerminating("here"),
      unready("x"),
    ],
    ["a ready one, on this node or not", unready("here"), ready("other")],
    ["a serving one among terminating ones", ended("here"), terminating("other")],
  ] as const
) {
  Deno.test(`among endpoints with the same target, ${rule} wins`, () => {
    for (const [first, second] of [[loser, winner], [winner, loser]] as const) {
      const inTwoSlices = cacheOf(endpointSlice("default/web-a", [first]), endpointSlice("default/web-b", [second]));
      const inOneSlice = cacheOf(endpointSlice("default/web-a", [first, second]));
      for (const cache of [inTwoSlices, inOneSlice]) {
        assert.deepEqual(cache.endpointsOf("default/web", "http", "tcp").map(({ endpoint }) => endpoint), [winner]);
      }
    }
  });
}

Deno.test("among equal duplicates, the one in the first slice by name wins, regardless of arrival order", () => {
  const a = endpointSlice("default/web-a", [endpoint("10.1.0.1", { zoneHints: ["a"] })]);
  const b = endpointSlice("default/web-b", [endpoint("10.1.0.1", { zoneHints: ["b"] })]);
  for (const cache of [cacheOf(a, b), cacheOf(b, a)]) {
    const [only, ...rest] = cache.endpointsOf("default/web", "http", "tcp");
    assert.deepEqual(only?.endpoint.zoneHints, ["a"]);
    assert.deepEqual(rest, []);
  }
});

Deno.test("an endpoint listed twice in one slice counts once", () => {
  const cache = cacheOf(endpointSlice("default/web-a", [endpoint("10.1.0.1"), endpoint("10.1.0.1")]));
  assert.deepEqual(targets(cache), ["10.1.0.1:8080"]);
});

Deno.test("a slice that moves to another service changes both", () => {
  const cache = cacheOf(endpointSlice("default/web-a", [endpoint("10.1.0.1")]));
  cache.take();
  cache.set(endpointSlice("default/web-a", [endpoint("10.1.0.1")], { serviceName: "db" }));
  assert.deepEqual([...cache.take()].sort(), ["default/db", "default/web"]);
  assert.deepEqual(targets(cache), []);
  assert.deepEqual(targets(cache, "default/db"), ["10.1.0.1:8080"]);
});

Deno.test("a slice change that is undone before it is taken disappears", () => {
  const one = endpointSlice("default/web-a", [endpoint("10.1.0.1")]);
  const two = endpointSlice("default/web-a", [endpoint("10.1.0.1"), endpoint("10.1.0.2")]);
  const cache = cacheOf(one);
  cache.take();
  assert.equal(cache.set(two), true);
  assert.equal(cache.pending(), 1);
  assert.equal(cache.set(one), true);
  assert.equal(cache.pending(), 0);
  assert.deepEqual([...cache.take()], []);
  assert.equal(cache.delete("default", "web-a"), one);
  assert.deepEqual([...cache.take()], ["default/web"]);
  assert.equal(cache.delete("default", "web-a"), undefined);
  assert.deepEqual(targets(cache), []);
});

Deno.test("a new trigger time alone is no change", () => {
  const cache = cacheOf(endpointSlice("default/web-a", [endpoint("10.1.0.1")], { triggerTimeMs: 1 }));
  cache.take();
  assert.equal(cache.set(endpointSlice("default/web-a", [endpoint("10.1.0.1")], { triggerTimeMs: 2 })), false);
  assert.equal(cache.pending(), 0);
});
