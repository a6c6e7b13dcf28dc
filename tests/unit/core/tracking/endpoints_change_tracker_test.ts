import assert from "node:assert/strict";
import { createEndpointsChangeTracker } from "../../../../core/tracking/trackers.ts";
import { endpoint, endpointSlice } from "../../../fakes/cluster_objects.ts";

const STARTED_MS = 1_000_000;

function webSlice(name: string, address: string, triggerTimeMs: number) {
  return endpointSlice(`default/${name}`, [endpoint(address)], { triggerTimeMs });
}

function createTracker() {
  return createEndpointsChangeTracker({ startedAtMs: STARTED_MS });
}

Deno.test("trigger times after the start are collected by service until taken", () => {
  const tracker = createTracker();
  tracker.update(webSlice("web-a", "10.1.0.1", STARTED_MS + 1));
  tracker.update(webSlice("web-b", "10.1.0.2", STARTED_MS + 2));
  tracker.update(webSlice("web-a", "10.1.0.3", STARTED_MS + 3));
  tracker.update(webSlice("db-a", "10.1.0.4", STARTED_MS + 4));
  const { services, triggerTimesMs } = tracker.take();
  assert.deepEqual([...services], ["default/web", "default/db"]);
  assert.deepEqual(
    [...triggerTimesMs],
    [["default/web", [STARTED_MS + 1, STARTED_MS + 2, STARTED_MS + 3]], ["default/db", [STARTED_MS + 4]]],
  );
  assert.deepEqual([...tracker.take().triggerTimesMs], []);
});

Deno.test("unknown trigger times, those before the start, and those without a change do not count", () => {
  const tracker = createTracker();
  tracker.update(webSlice("web-a", "10.1.0.1", 0));
  tracker.update(webSlice("web-b", "10.1.0.2", STARTED_MS));
  tracker.update(webSlice("web-b", "10.1.0.2", STARTED_MS + 1));
  assert.deepEqual([...tracker.take().triggerTimesMs], []);
});

Deno.test("deleting a slice drops the trigger times of its service", () => {
  const tracker = createTracker();
  tracker.update(webSlice("web-a", "10.1.0.1", STARTED_MS + 1));
  tracker.update(webSlice("db-a", "10.1.0.2", STARTED_MS + 2));
  tracker.delete("default", "web-a");
  assert.deepEqual([...tracker.take().triggerTimesMs], [["default/db", [STARTED_MS + 2]]]);
});

Deno.test("pending counts changed slices, total counts updates", () => {
  const tracker = createTracker();
  tracker.update(webSlice("web-a", "10.1.0.1", 0));
  tracker.update(webSlice("web-a", "10.1.0.2", 0));
  tracker.update(webSlice("web-b", "10.1.0.3", 0));
  tracker.update(webSlice("web-b", "10.1.0.3", 0));
  tracker.delete("default", "unknown");
  assert.equal(tracker.pending(), 2);
  assert.equal(tracker.total(), 4);
  tracker.take();
  assert.equal(tracker.pending(), 0);
  tracker.delete("default", "web-b");
  assert.equal(tracker.pending(), 1);
  assert.equal(tracker.total(), 5);
});
