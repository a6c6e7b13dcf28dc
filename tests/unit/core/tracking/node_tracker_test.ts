import assert from "node:assert/strict";
import type { Family } from "../../../../platform/address.ts";
import { createNodeTracker } from "../../../../core/tracking/node_tracker.ts";
import { node } from "../../../fakes/cluster_objects.ts";

const addressTable: {
  readonly name: string;
  readonly bindAddress: string;
  readonly addresses: readonly string[];
  readonly expected: readonly [primary: Family, v4: string, v6: string];
}[] = [
  {
    name: "nothing known: loopback",
    bindAddress: "",
    addresses: [],
    expected: ["IPv4", "127.0.0.1", "::1"],
  },
  {
    name: "the first address of each family",
    bindAddress: "0.0.0.0",
    addresses: ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"],
    expected: ["IPv4", "192.0.2.1", "2001:db8::1"],
  },
  {
    name: "an IPv6 node with a second address in IPv4",
    bindAddress: "::",
    addresses: ["2001:db8::1", "192.0.2.1"],
    expected: ["IPv6", "192.0.2.1", "2001:db8::1"],
  },
  {
    name: "one family only: loopback in the other",
    bindAddress: "",
    addresses: ["2001:db8::1"],
    expected: ["IPv6", "127.0.0.1", "2001:db8::1"],
  },
  {
    name: "a bind address replaces the Node's of its family",
    bindAddress: "198.51.100.7",
    addresses: ["2001:db8::1", "192.0.2.1"],
    expected: ["IPv4", "198.51.100.7", "2001:db8::1"],
  },
  {
    name: "a bind address without any from the Node",
    bindAddress: "2001:db8::9",
    addresses: [],
    expected: ["IPv6", "127.0.0.1", "2001:db8::9"],
  },
];

for (const { name, bindAddress, addresses, expected } of addressTable) {
  Deno.test(`node addresses: ${name}`, () => {
    const tracker = createNodeTracker({ nodeName: "here", bindAddress });
    tracker.set("/here", node("here", { addresses }));
    const { primaryFamily, nodeIPs } = tracker.state();
    assert.deepEqual([primaryFamily, nodeIPs.IPv4, nodeIPs.IPv6], expected);
  });
}

function createTracker() {
  return createNodeTracker({ nodeName: "here", bindAddress: "" });
}

Deno.test("a change lists the changed fields", () => {
  const tracker = createTracker();
  assert.equal(tracker.take(), undefined);
  tracker.set("/here", node("here", { addresses: ["192.0.2.1"], zone: "a", podCIDRs: ["10.1.0.0/24", "fd00::/64"] }));
  assert.deepEqual(tracker.take()?.changed, ["nodeIPs", "podCIDRs", "zone", "known"]);
  assert.deepEqual(tracker.state().podCIDRs, { IPv4: "10.1.0.0/24", IPv6: "fd00::/64" });

  tracker.set("/here", node("here", { addresses: ["192.0.2.1"], zone: "b", podCIDRs: ["10.1.0.0/24"], leaving: true }));
  const change = tracker.take();
  assert.deepEqual(change?.changed, ["podCIDRs", "zone", "leaving"]);
  assert.equal(change?.after.zone, "b");
  assert.equal(tracker.take(), undefined);
});

Deno.test("an undone change, an equal Node and other Nodes are no change", () => {
  const tracker = createTracker();
  tracker.set("/here", node("here", { zone: "a" }));
  tracker.take();
  tracker.set("/here", node("here", { zone: "b" }));
  assert.equal(tracker.pending(), true);
  tracker.set("/here", node("here", { zone: "a" }));
  tracker.set("/elsewhere", node("elsewhere", { zone: "c" }));
  tracker.delete("/elsewhere");
  assert.equal(tracker.pending(), false);
  assert.equal(tracker.take(), undefined);
});

Deno.test("after its Node is deleted, the other fields keep their values until it is back", () => {
  const tracker = createTracker();
  const described = node("here", { zone: "a", addresses: ["192.0.2.1"] });
  tracker.set("/here", described);
  tracker.take();
  tracker.delete("/here");
  const change = tracker.take();
  assert.deepEqual(change?.changed, ["deleted"]);
  assert.equal(change?.after.zone, "a");
  assert.equal(change?.after.nodeIPs.IPv4, "192.0.2.1");
  tracker.set("/here", described);
  assert.deepEqual(tracker.take()?.changed, ["deleted"]);
  assert.equal(tracker.state().deleted, false);
});

Deno.test("a deletion that is undone before it is taken is no change", () => {
  const tracker = createTracker();
  tracker.set("/here", node("here", { zone: "a" }));
  tracker.take();
  tracker.delete("/here");
  tracker.set("/here", node("here", { zone: "a" }));
  assert.equal(tracker.pending(), false);
});

Deno.test("pod CIDRs follow the Node, and stay while it has none", () => {
  const tracker = createTracker();
  tracker.set("/here", node("here"));
  assert.equal(tracker.hasPodCIDR(), false);
  tracker.set("/here", node("here", { podCIDRs: ["10.1.0.0/24"] }));
  assert.equal(tracker.hasPodCIDR(), true);
  tracker.set("/here", node("here", { podCIDRs: ["10.2.0.0/24", "fd00::/64"] }));
  tracker.delete("/here");
  tracker.set("/here", node("here"));
  assert.deepEqual(tracker.state().podCIDRs, { IPv4: "10.2.0.0/24", IPv6: "fd00::/64" });
  tracker.set("/here", node("here", { podCIDRs: ["fd01::/64"] }));
  assert.deepEqual(tracker.state().podCIDRs, { IPv4: undefined, IPv6: "fd01::/64" });
});

Deno.test("a Node stays known after its first appearance, even if it has no other fields or is deleted", () => {
  const tracker = createTracker();
  tracker.set("/elsewhere", node("elsewhere"));
  assert.equal(tracker.state().known, false);
  tracker.set("/here", node("here"));
  assert.deepEqual(tracker.take()?.changed, ["known"]);
  tracker.delete("/here");
  assert.equal(tracker.state().known, true);
});

Deno.test("a Node that loses its addresses keeps the last ones", () => {
  const tracker = createTracker();
  tracker.set("/here", node("here", { addresses: ["192.0.2.1"] }));
  tracker.set("/here", node("here", { addresses: [] }));
  assert.equal(tracker.state().nodeIPs.IPv4, "192.0.2.1");
});

Deno.test("a Node that never existed is not deleted", () => {
  const tracker = createNodeTracker({ nodeName: "here", bindAddress: "" });
  tracker.delete("/here");
  assert.deepEqual([tracker.state().deleted, tracker.pending()], [false, false]);
});
