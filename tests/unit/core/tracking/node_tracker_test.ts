import assert from "node:assert/strict";
import type { Family } from "../../../../platform/address.ts";
import { createNodeTracker } from "../../../../core/tracking/node_tracker.ts";
import { node } from "../../../fakes/cluster_objects.ts";

const addressTable: {
  readonly says: string;
  readonly bindAddress: string;
  readonly addresses: readonly string[];
  readonly expected: readonly [primary: Family, v4: string, v6: string];
}[] = [
  {
    says: "nothing known: loopback",
    bindAddress: "",
    addresses: [],
    expected: ["IPv4", "127.0.0.1", "::1"],
  },
  {
    says: "the first address of each family",
    bindAddress: "0.0.0.0",
    addresses: ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"],
    expected: ["IPv4", "192.0.2.1", "2001:db8::1"],
  },
  {
    says: "an IPv6 node with a second address in IPv4",
    bindAddress: "::",
    addresses: ["2001:db8::1", "192.0.2.1"],
    expected: ["IPv6", "192.0.2.1", "2001:db8::1"],
  },
  {
    says: "one family only: loopback in the other",
    bindAddress: "",
    addresses: ["2001:db8::1"],
    expected: ["IPv6", "127.0.0.1", "2001:db8::1"],
  },
  {
    says: "a bind address replaces the Node's of its family",
    bindAddress: "198.51.100.7",
    addresses: ["2001:db8::1", "192.0.2.1"],
    expected: ["IPv4", "198.51.100.7", "2001:db8::1"],
  },
  {
    says: "a bind address without any from the Node",
    bindAddress: "2001:db8::9",
    addresses: [],
    expected: ["IPv6", "127.0.0.1", "2001:db8::9"],
  },
];

for (const { says, bindAddress, addresses, expected } of addressTable) {
  Deno.test(`node addresses: ${says}`, () => {
    const tracker = createNodeTracker({ nodeName: "here", bindAddress });
    tracker.update(node("here", { addresses }));
    const { primaryFamily, nodeIPs } = tracker.state();
    assert.deepEqual([primaryFamily, nodeIPs.IPv4, nodeIPs.IPv6], expected);
  });
}

function createTracker() {
  return createNodeTracker({ nodeName: "here", bindAddress: "" });
}

Deno.test("a change says what changed", () => {
  const tracker = createTracker();
  assert.equal(tracker.take(), undefined);
  tracker.update(node("here", { addresses: ["192.0.2.1"], zone: "a", podCIDRs: ["10.1.0.0/24", "fd00::/64"] }));
  assert.deepEqual(tracker.take()?.changed, ["nodeIPs", "podCIDRs", "zone", "known"]);
  assert.deepEqual(tracker.state().podCIDRs, { IPv4: "10.1.0.0/24", IPv6: "fd00::/64" });

  tracker.update(node("here", { addresses: ["192.0.2.1"], zone: "b", podCIDRs: ["10.1.0.0/24"], leaving: true }));
  const change = tracker.take();
  assert.deepEqual(change?.changed, ["podCIDRs", "zone", "leaving"]);
  assert.deepEqual([change?.before.zone, change?.after.zone], ["a", "b"]);
  assert.equal(tracker.take(), undefined);
});

Deno.test("a change that is undone, an equal Node and other Nodes are no change", () => {
  const tracker = createTracker();
  tracker.update(node("here", { zone: "a" }));
  tracker.take();
  tracker.update(node("here", { zone: "b" }));
  assert.equal(tracker.pending(), true);
  tracker.update(node("here", { zone: "a" }));
  tracker.update(node("elsewhere", { zone: "c" }));
  tracker.delete("elsewhere");
  assert.equal(tracker.pending(), false);
  assert.equal(tracker.take(), undefined);
});

Deno.test("a deleted Node leaves all else as it was, until it is back", () => {
  const tracker = createTracker();
  const described = node("here", { zone: "a", addresses: ["192.0.2.1"] });
  tracker.update(described);
  tracker.take();
  tracker.delete("here");
  const change = tracker.take();
  assert.deepEqual(change?.changed, ["deleted"]);
  assert.equal(change?.after.zone, "a");
  assert.equal(change?.after.nodeIPs.IPv4, "192.0.2.1");
  tracker.update(described);
  assert.deepEqual(tracker.take()?.changed, ["deleted"]);
  assert.equal(tracker.state().deleted, false);
});

Deno.test("a Node whose deletion is undone before it is taken has not changed", () => {
  const tracker = createTracker();
  tracker.update(node("here", { zone: "a" }));
  tracker.take();
  tracker.delete("here");
  tracker.update(node("here", { zone: "a" }));
  assert.equal(tracker.pending(), false);
});

Deno.test("pod CIDRs follow the Node, and stay where it has none for a while", () => {
  const tracker = createTracker();
  tracker.update(node("here"));
  assert.equal(tracker.hasPodCIDR(), false);
  tracker.update(node("here", { podCIDRs: ["10.1.0.0/24"] }));
  assert.equal(tracker.hasPodCIDR(), true);
  tracker.update(node("here", { podCIDRs: ["10.2.0.0/24", "fd00::/64"] }));
  tracker.delete("here");
  tracker.update(node("here"));
  assert.deepEqual(tracker.state().podCIDRs, { IPv4: "10.2.0.0/24", IPv6: "fd00::/64" });
  tracker.update(node("here", { podCIDRs: ["fd01::/64"] }));
  assert.deepEqual(tracker.state().podCIDRs, { IPv4: undefined, IPv6: "fd01::/64" });
});

Deno.test("a Node is known from its first appearance on, though nothing else is said of it and it is deleted", () => {
  const tracker = createTracker();
  tracker.update(node("elsewhere"));
  assert.equal(tracker.state().known, false);
  tracker.update(node("here"));
  assert.deepEqual(tracker.take()?.changed, ["known"]);
  tracker.delete("here");
  assert.equal(tracker.state().known, true);
});

Deno.test("a Node that loses its addresses keeps those it had", () => {
  const tracker = createTracker();
  tracker.update(node("here", { addresses: ["192.0.2.1"] }));
  tracker.update(node("here", { addresses: [] }));
  assert.equal(tracker.state().nodeIPs.IPv4, "192.0.2.1");
});
