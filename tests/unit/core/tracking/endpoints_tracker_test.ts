import assert from "node:assert/strict";
import type { EndpointSlice } from "../../../../core/objects/cluster_object.ts";
import { createEndpointsTracker } from "../../../../core/tracking/endpoints_tracker.ts";
import { endpoint, endpointSlice, terminatingEndpoint } from "../../../fakes/cluster_objects.ts";

const STARTED_MS = 1_000_000;

function trackerOf(...slices: EndpointSlice[]) {
  const tracker = createEndpointsTracker(STARTED_MS);
  for (const slice of slices) tracker.set(`${slice.namespace}/${slice.name}`, slice);
  return tracker;
}

const targets = (tracker: ReturnType<typeof trackerOf>, service = "default/web", port = "http") =>
  tracker.endpointsOf(service, port, "tcp").map(({ target }) => target);

Deno.test("the endpoints of a service come from all its slices, sorted", () => {
  const tracker = trackerOf(
    endpointSlice("default/web-b", [endpoint("10.1.0.3"), endpoint("10.1.0.1")]),
    endpointSlice("default/web-a", [endpoint("10.1.0.2")]),
    endpointSlice("default/db-a", [endpoint("10.1.0.9")]),
    endpointSlice("other/web-a", [endpoint("10.1.0.8")]),
  );
  assert.deepEqual(targets(tracker), ["10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080"]);
  assert.deepEqual(tracker.slicesOf("default/web").map(({ name }) => name), ["web-a", "web-b"]);
});

Deno.test("a service port gets the endpoints of slice ports with its name and protocol, regardless of their numbers", () => {
  const tracker = trackerOf(
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
  assert.deepEqual(targets(tracker), ["10.1.0.1:8080", "10.1.0.2:8000"]);
  assert.deepEqual(targets(tracker, "default/web", "metrics"), ["10.1.0.1:9090"]);
  assert.deepEqual(targets(tracker, "default/web", ""), []);
});

Deno.test("IPv6 targets are bracketed", () => {
  const tracker = trackerOf(endpointSlice("default/web-a", [endpoint("fd00::1")], { family: "IPv6" }));
  assert.deepEqual(targets(tracker), ["[fd00::1]:8080"]);
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
      const inTwoSlices = trackerOf(endpointSlice("default/web-a", [first]), endpointSlice("default/web-b", [second]));
      const inOneSlice = trackerOf(endpointSlice("default/web-a", [first, second]));
      for (const tracker of [inTwoSlices, inOneSlice]) {
        assert.deepEqual(tracker.endpointsOf("default/web", "http", "tcp").map(({ endpoint }) => endpoint), [winner]);
      }
    }
  });
}

Deno.test("among equal duplicates, the one in the first slice by name wins, regardless of arrival order", () => {
  const a = endpointSlice("default/web-a", [endpoint("10.1.0.1", { zoneHints: ["a"] })]);
  const b = endpointSlice("default/web-b", [endpoint("10.1.0.1", { zoneHints: ["b"] })]);
  for (const tracker of [trackerOf(a, b), trackerOf(b, a)]) {
    const [only, ...rest] = tracker.endpointsOf("default/web", "http", "tcp");
    assert.deepEqual(only?.endpoint.zoneHints, ["a"]);
    assert.deepEqual(rest, []);
  }
});

Deno.test("an endpoint listed twice in one slice counts once", () => {
  const tracker = trackerOf(endpointSlice("default/web-a", [endpoint("10.1.0.1"), endpoint("10.1.0.1")]));
  assert.deepEqual(targets(tracker), ["10.1.0.1:8080"]);
});

Deno.test("a slice that moves to another service changes both", () => {
  const tracker = trackerOf(endpointSlice("default/web-a", [endpoint("10.1.0.1")]));
  tracker.take();
  tracker.set("default/web-a", endpointSlice("default/web-a", [endpoint("10.1.0.1")], { serviceName: "db" }));
  assert.deepEqual([...tracker.take().services].sort(), ["default/db", "default/web"]);
  assert.deepEqual(targets(tracker), []);
  assert.deepEqual(targets(tracker, "default/db"), ["10.1.0.1:8080"]);
});

Deno.test("a slice change that is undone before it is taken disappears", () => {
  const one = endpointSlice("default/web-a", [endpoint("10.1.0.1")]);
  const two = endpointSlice("default/web-a", [endpoint("10.1.0.1"), endpoint("10.1.0.2")]);
  const tracker = trackerOf(one);
  tracker.take();
  tracker.set("default/web-a", two);
  assert.equal(tracker.pending(), 1);
  tracker.set("default/web-a", one);
  assert.equal(tracker.pending(), 0);
  assert.deepEqual([...tracker.take().services], []);
  tracker.delete("default/web-a");
  assert.deepEqual([...tracker.take().services], ["default/web"]);
  tracker.delete("default/web-a");
  assert.deepEqual([...tracker.take().services], []);
  assert.deepEqual(targets(tracker), []);
});

Deno.test("every version since the last round is a step, in order, and none from before the first round", () => {
  const one = endpointSlice("default/web-a", [endpoint("10.1.0.1")]);
  const two = endpointSlice("default/web-a", [endpoint("10.1.0.2")]);
  const tracker = trackerOf(two, one);
  tracker.delete("default/web-a");
  tracker.set("default/web-a", one);
  assert.deepEqual(tracker.take().steps, []);
  tracker.set("default/web-a", two);
  tracker.set("default/web-a", two);
  tracker.set("default/web-a", one);
  tracker.delete("default/web-a");
  tracker.delete("default/web-a");
  tracker.set("default/web-a", two);
  assert.deepEqual(tracker.take().steps, [
    { before: one, after: two },
    { before: two, after: one },
    { before: one, after: undefined },
    { before: undefined, after: two },
  ]);
  assert.deepEqual(tracker.take().steps, []);
});

const webSlice = (name: string, address: string, triggerTimeMs: number) =>
  endpointSlice(`default/${name}`, [endpoint(address)], { triggerTimeMs });

Deno.test("trigger times after the start are collected by service until taken", () => {
  const tracker = trackerOf(
    webSlice("web-a", "10.1.0.1", STARTED_MS + 1),
    webSlice("web-b", "10.1.0.2", STARTED_MS + 2),
    webSlice("web-a", "10.1.0.3", STARTED_MS + 3),
    webSlice("db-a", "10.1.0.4", STARTED_MS + 4),
  );
  const { services, triggerTimesMs } = tracker.take();
  assert.deepEqual([...services], ["default/web", "default/db"]);
  assert.deepEqual(
    [...triggerTimesMs],
    [["default/web", [STARTED_MS + 1, STARTED_MS + 2, STARTED_MS + 3]], ["default/db", [STARTED_MS + 4]]],
  );
  assert.deepEqual([...tracker.take().triggerTimesMs], []);
});

Deno.test("unknown trigger times, those before the start, and those without a change do not count", () => {
  const tracker = trackerOf(webSlice("web-a", "10.1.0.1", 0), webSlice("web-b", "10.1.0.2", STARTED_MS));
  assert.deepEqual([...tracker.take().triggerTimesMs], []);
  tracker.set("default/web-b", webSlice("web-b", "10.1.0.2", STARTED_MS + 1));
  assert.equal(tracker.pending(), 0);
  assert.deepEqual([...tracker.take().triggerTimesMs], []);
});

Deno.test("deleting a slice drops the trigger times of its service", () => {
  const tracker = trackerOf(
    webSlice("web-a", "10.1.0.1", STARTED_MS + 1),
    webSlice("db-a", "10.1.0.2", STARTED_MS + 2),
  );
  tracker.delete("default/web-a");
  assert.deepEqual([...tracker.take().triggerTimesMs], [["default/db", [STARTED_MS + 2]]]);
});

Deno.test("pending counts changed slices, total counts updates", () => {
  const tracker = trackerOf(
    webSlice("web-a", "10.1.0.1", 0),
    webSlice("web-a", "10.1.0.2", 0),
    webSlice("web-b", "10.1.0.3", 0),
    webSlice("web-b", "10.1.0.3", 0),
  );
  tracker.delete("default/unknown");
  assert.equal(tracker.pending(), 2);
  assert.equal(tracker.total(), 4);
  tracker.take();
  assert.equal(tracker.pending(), 0);
  tracker.delete("default/web-b");
  assert.equal(tracker.pending(), 1);
  assert.equal(tracker.total(), 5);
});

// A search of all ports for each would take minutes.
Deno.test("a service may have as many ports as its slices, 20,000", () => {
  const tracker = createEndpointsTracker(0), count = 20_000;
  const ports = Array.from({ length: count }, (_, i) => ({ name: `p${i}`, protocol: "tcp", port: i + 1 } as const));
  for (let i = 0; i < 10; i++) {
    tracker.set(`t/web-${i}`, endpointSlice(`t/web-${i}`, [endpoint(`10.1.0.${i}`)], { ports }));
  }
  for (const { name, port } of ports) {
    const found = tracker.endpointsOf("t/web", name, "tcp");
    assert.deepEqual([found.length, found[0]?.target], [10, `10.1.0.0:${port}`]);
  }
  assert.deepEqual(tracker.endpointsOf("t/web", "p1", "udp"), []);
});

// As arguments of a call, so many would exceed the stack.
Deno.test("150,000 endpoints may join a service at once", () => {
  const tracker = createEndpointsTracker(0);
  tracker.set("t/web-1", endpointSlice("t/web-1", [endpoint("10.1.0.1")]));
  tracker.set("t/web-2", endpointSlice("t/web-2", [endpoint("10.1.0.2")]));
  assert.equal(tracker.endpointsOf("t/web", "http", "tcp").length, 2);
  const many = Array.from({ length: 150_000 }, (_, i) => endpoint(`10.${2 + (i >> 16)}.${i >> 8 & 255}.${i & 255}`));
  tracker.set("t/web-2", endpointSlice("t/web-2", many));
  assert.equal(tracker.endpointsOf("t/web", "http", "tcp").length, 150_001);
});
