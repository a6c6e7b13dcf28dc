import assert from "node:assert/strict";
import { createServiceTracker } from "../../../../core/tracking/trackers.ts";
import { service } from "../../../fakes/cluster_objects.ts";

const ported = (port: number) =>
  service("default/web", { ports: [{ name: "http", protocol: "tcp", port, nodePort: 0 }] });

Deno.test("a new, changed or deleted service is taken once", () => {
  const tracker = createServiceTracker();
  tracker.set("default/web", ported(80));
  assert.equal(tracker.pending(), 1);
  assert.deepEqual([...tracker.take().keys()], ["default/web"]);
  assert.equal(tracker.pending(), 0);
  assert.deepEqual([...tracker.take().keys()], []);

  tracker.set("default/web", ported(81));
  assert.deepEqual([...tracker.take().keys()], ["default/web"]);
  assert.equal(tracker.get("default/web")?.ports[0]?.port, 81);

  tracker.delete("default/web");
  assert.deepEqual([...tracker.take().keys()], ["default/web"]);
  assert.equal(tracker.get("default/web"), undefined);
});

Deno.test("a change that is undone before it is taken disappears", () => {
  const tracker = createServiceTracker();
  tracker.set("default/web", ported(80));
  tracker.delete("default/web");
  assert.equal(tracker.pending(), 0);

  tracker.set("default/web", ported(80));
  tracker.take();
  tracker.set("default/web", ported(81));
  tracker.set("default/web", ported(82));
  assert.equal(tracker.pending(), 1);
  tracker.set("default/web", ported(80));
  assert.equal(tracker.pending(), 0);
  tracker.delete("default/web");
  tracker.set("default/web", ported(80));
  assert.deepEqual([...tracker.take().keys()], []);
});

Deno.test("an equal service changes nothing, but counts as an update", () => {
  const tracker = createServiceTracker();
  tracker.set("default/web", ported(80));
  tracker.take();
  tracker.set("default/web", ported(80));
  assert.equal(tracker.pending(), 0);
  assert.equal(tracker.total(), 2);
});

Deno.test("ignored services, headless ones and ExternalNames are not tracked", () => {
  const tracker = createServiceTracker();
  tracker.set("default/other", service("default/other", { ignored: true }));
  tracker.set("default/headless", service("default/headless", { clusterIPs: [] }));
  tracker.set("default/alias", service("default/alias", { type: "ExternalName" }));
  assert.equal(tracker.pending(), 0);
  assert.deepEqual([...tracker.keys()], []);

  tracker.set("default/web", ported(80));
  tracker.take();
  tracker.set("default/web", { ...ported(80), ignored: true });
  assert.deepEqual([...tracker.take().keys()], ["default/web"]);
  assert.equal(tracker.get("default/web"), undefined);
});
