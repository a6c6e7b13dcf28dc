import assert from "node:assert/strict";
import type { ClusterObject, EndpointSlice } from "../../../../core/objects/mod.ts";
import { createEndpointsTracker } from "../../../../core/tracking/endpoints_tracker.ts";
import { reportGone } from "../../../../features/failover/gone.ts";
import { endpoint, endpointSlice } from "../../../fakes/cluster_objects.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** A slice of the service before the dash in its name. */
const slice = (name: string, port: number, ...addresses: readonly string[]) =>
  endpointSlice(`default/${name}`, addresses.map((address) => endpoint(address)), {
    ports: [{ name: "http", protocol: "tcp", port }, { name: "dns", protocol: "udp", port: 53 }],
  });

function tracking() {
  const clock = createFakeClock(), tracker = createEndpointsTracker(0), end = new AbortController();
  const deletedServices = new Set<string>();
  let stalledMs = 0;
  const reported: string[] = [];
  const reporter = reportGone(
    { clock: { ...clock, monotonic: () => clock.monotonic() + stalledMs }, signal: end.signal },
    { family: "IPv4", noteGone: (gone) => reported.push(...gone) },
    tracker.values,
    (service) => !deletedServices.has(service) && tracker.slicesOf(service).length > 0,
  );
  return {
    clock,
    end,
    deletedServices,
    /** Lets time pass in which no timer fires. */
    stall: (ms: number) => stalledMs += ms,
    earlier: (...slices: readonly ClusterObject[]) => reporter.earlier(slices),
    /** Sets and deletes slices, and plans the change. */
    change(set: readonly EndpointSlice[], deleted: readonly string[] = []) {
      for (const one of set) tracker.set(`default/${one.name}`, one);
      for (const name of deleted) tracker.delete(`default/${name}`);
      reporter.planned({ endpoints: { IPv4: tracker.take() } } as never);
    },
    /** The endpoints reported up to 600 ms later. */
    gone(): readonly string[] {
      clock.advance(500);
      clock.advance(100);
      return reported.splice(0).sort();
    },
  };
}

Deno.test("an endpoint is gone when its address has left the last slice", () => {
  const { change, gone } = tracking();
  change([
    slice("web-a", 80, "10.1.0.1", "10.1.0.2"),
    slice("other-a", 80, "10.1.0.1"),
    slice("third-a", 81, "10.1.0.1"),
  ]);
  assert.deepEqual(gone(), []);
  change([slice("web-a", 80, "10.1.0.2"), slice("other-a", 80)]);
  assert.deepEqual(gone(), [], "a slice has it with another port");
  change([slice("third-a", 81)]);
  assert.deepEqual(gone(), ["10.1.0.1:81"]);
  change([slice("web-a", 80)]);
  assert.deepEqual(gone(), ["10.1.0.2:80"]);
  change([slice("web-a", 80, "10.1.0.3")]);
  assert.deepEqual(gone(), []);
});

Deno.test("an endpoint whose service has another port is not gone", () => {
  const { change, gone } = tracking();
  change([slice("web-a", 80, "10.1.0.1")]);
  change([slice("web-a", 81, "10.1.0.1")]);
  assert.deepEqual(gone(), []);
});

Deno.test("an endpoint that a controller moves to another slice is not gone in between", () => {
  const { clock, change, gone } = tracking();
  change([slice("web-a", 80, "10.1.0.1", "10.1.0.2")]);
  change([slice("web-a", 80, "10.1.0.1")]);
  clock.advance(400);
  change([slice("web-b", 80, "10.1.0.2")]);
  assert.deepEqual(gone(), []);
});

Deno.test("each endpoint has half a second to appear in another slice, whatever left before it", () => {
  const { clock, change, gone } = tracking();
  change([slice("web-a", 80, "10.1.0.1"), slice("web-b", 80, "10.1.0.2")]);
  change([slice("web-a", 80)]);
  clock.advance(490);
  change([slice("web-b", 80)]);
  clock.advance(490);
  change([slice("web-c", 80, "10.1.0.2")]);
  assert.deepEqual(gone(), ["10.1.0.1:80"]);
});

Deno.test("after a pause of the process, the events that waited come first", () => {
  const { clock, stall, change, gone } = tracking();
  change([slice("web-a", 80, "10.1.0.1", "10.1.0.2")]);
  change([slice("web-a", 80)]);
  stall(5_000);
  clock.advance(500);
  change([slice("web-b", 80, "10.1.0.1")]);
  assert.deepEqual(gone(), ["10.1.0.2:80"]);
});

Deno.test("a terminating endpoint is not gone", () => {
  const { change, gone } = tracking();
  change([endpointSlice("default/web-a", [endpoint("10.1.0.1")])]);
  change([endpointSlice("default/web-a", [endpoint("10.1.0.1", { ready: false, serving: true, terminating: true })])]);
  assert.deepEqual(gone(), []);
  change([endpointSlice("default/web-a", [endpoint("10.1.0.1", { ready: false, serving: false, terminating: true })])]);
  assert.deepEqual(gone(), []);
});

Deno.test("a ready endpoint that leaves with its service is not gone, a terminating one is", () => {
  const { deletedServices, change, gone } = tracking();
  const ready = endpoint("10.1.0.1"), terminating = endpoint("10.1.0.2", { ready: false, terminating: true });
  change([endpointSlice("default/web-a", [ready, terminating])]);
  deletedServices.add("default/web");
  change([], ["web-a"]);
  assert.deepEqual(gone(), ["10.1.0.2:8080"]);
});

Deno.test("a ready endpoint is not gone while a service that was created again has no slices yet", () => {
  const { change, gone } = tracking();
  change([slice("web-a", 80, "10.1.0.1")]);
  change([], ["web-a"]);
  assert.deepEqual(gone(), []);
});

Deno.test("a ready endpoint of a deleted service is gone when it leaves the slice of another service", () => {
  const { deletedServices, change, gone } = tracking();
  change([slice("web-a", 80, "10.1.0.1"), slice("other-a", 80, "10.1.0.1")]);
  deletedServices.add("default/web");
  change([], ["web-a"]);
  assert.deepEqual(gone(), []);
  change([slice("other-a", 80)]);
  assert.deepEqual(gone(), ["10.1.0.1:80"]);
});

Deno.test("an endpoint of an earlier run is gone unless a slice has it, once the slices are known", () => {
  const { clock, change, earlier, gone } = tracking();
  earlier(slice("web-a", 80, "10.1.0.1", "10.1.0.3"), slice("other-a", 81, "10.1.0.4"));
  clock.advance(60_000);
  assert.deepEqual(gone(), []);
  change([slice("web-a", 80, "10.1.0.1", "10.1.0.2"), slice("other-a", 81)]);
  assert.deepEqual(gone(), ["10.1.0.3:80", "10.1.0.4:81"]);
});

Deno.test("nothing is reported after the end", () => {
  const { end, change, gone } = tracking();
  change([slice("web-a", 80, "10.1.0.1")]);
  change([slice("web-a", 80)]);
  end.abort();
  assert.deepEqual(gone(), []);
});
