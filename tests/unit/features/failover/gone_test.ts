import assert from "node:assert/strict";
import type { EndpointSlice } from "../../../../core/objects/mod.ts";
import { reportGone } from "../../../../features/failover/gone.ts";

const slice = (port: number, ...addresses: readonly string[]) => ({
  ...{ kind: "EndpointSlice", family: "IPv4" },
  ports: [{ protocol: "tcp", port }, { protocol: "udp", port: 53 }],
  endpoints: addresses.map((address) => ({ address })),
} as unknown as EndpointSlice);

/** A tracker of these slices by service, which may change; it returns what it reports. */
function tracking(slices: Readonly<Record<string, readonly EndpointSlice[]>>) {
  let reported: readonly string[] = [];
  const noteGone = (gone: readonly string[]) => reported = gone;
  const reporter = reportGone({ family: "IPv4", noteGone }, (service) => slices[service] ?? []);
  const report = (run: () => void) => {
    reported = [];
    run();
    return reported;
  };
  return {
    note: (services: readonly string[]) =>
      report(() => reporter.planned({ endpoints: { IPv4: { services } } } as never)),
    goneSince: (earlier: readonly EndpointSlice[]) => report(() => reporter.earlier(earlier)),
  };
}

Deno.test("an endpoint is gone when it has left the last slice, and its service with it", () => {
  const slices: Record<string, EndpointSlice[]> = {
    web: [slice(80, "10.1.0.1", "10.1.0.2"), slice(80, "10.1.0.2")],
    other: [slice(80, "10.1.0.1"), slice(81, "10.1.0.1")],
  };
  const tracker = tracking(slices);
  assert.deepEqual(tracker.note(["web", "other"]), []);
  slices.web = [slice(80, "10.1.0.2")];
  assert.deepEqual(tracker.note(["web"]), []);
  slices.other = [slice(81, "10.1.0.1")];
  assert.deepEqual(tracker.note(["web", "other"]), ["10.1.0.1:80"]);
  // One service takes an endpoint over from another in the same round.
  slices.web = [];
  slices.new = [slice(80, "10.1.0.2")];
  assert.deepEqual(tracker.note(["web", "new"]), []);
  delete slices.other;
  delete slices.new;
  assert.deepEqual([...tracker.note(["other", "new"])].sort(), ["10.1.0.1:81", "10.1.0.2:80"]);
  assert.deepEqual(tracker.note(["other", "new"]), []);
});

Deno.test("an endpoint of an earlier slice is gone unless a slice of now has it", () => {
  const slices: Record<string, EndpointSlice[]> = { web: [slice(80, "10.1.0.1", "10.1.0.2")], other: [] };
  const tracker = tracking(slices);
  tracker.note(["web", "other"]);
  const earlier = [slice(80, "10.1.0.1", "10.1.0.3"), slice(81, "10.1.0.2")];
  assert.deepEqual(tracker.goneSince(earlier), ["10.1.0.3:80", "10.1.0.2:81"]);
  slices.other = [slice(81, "10.1.0.2")];
  tracker.note(["other"]);
  assert.deepEqual(tracker.goneSince(earlier), ["10.1.0.3:80"]);
});
