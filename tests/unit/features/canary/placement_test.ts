import assert from "node:assert/strict";
import type { NodeState } from "../../../../core/tracking/mod.ts";
import { FAMILIES, type Family } from "../../../../platform/mod.ts";
import { start } from "../../../../features/canary/start.ts";
import { featureNode } from "../../../fakes/feature_node.ts";

const NODE: NodeState = {
  ...{ nodeIPs: { IPv4: "127.0.0.1", IPv6: "::1" }, primaryFamily: "IPv4", zone: "", leaving: false, known: true },
  ...{ podCIDRs: { IPv4: undefined, IPv6: undefined }, deleted: false },
};

/** The families whose canary is placed on a node that serves both. */
async function placedOn(node: Partial<NodeState>): Promise<readonly Family[]> {
  const end = new AbortController();
  const families = FAMILIES.map((family) => ({
    ...{ family, hasServices: () => true, serveInternal() {}, compare() {} },
    ...{ ports: () => [], portsOf: () => [], leaveOut() {}, weigh() {}, planAgain() {}, nodePortAddresses: () => [] },
    call: () => Promise.resolve(undefined),
  }));
  const tracking = { node: { state: () => ({ ...NODE, ...node }) } } as never;
  const running = await start(
    featureNode({ tracking, families, signal: end.signal }),
    { canary: { enabled: true, addressRanges: [], intervalMs: 2000, timeoutMs: 1000 } },
  );
  running.planned?.({} as never);
  const placed = FAMILIES.filter((family) => running.familyStatus?.(family) !== undefined);
  end.abort();
  return placed;
}

Deno.test("a node whose Node names one family has only that canary, whatever addresses its interfaces have", async () => {
  assert.deepEqual(await placedOn({ nodeIPs: { IPv4: "192.0.2.10", IPv6: "::1" } }), ["IPv4"]);
  assert.deepEqual(await placedOn({ nodeIPs: { IPv4: "127.0.0.1", IPv6: "2001:db8::1" } }), ["IPv6"]);
});

Deno.test("a node with a pod CIDR of a family, or about which nothing is known, has its canary", async () => {
  const podCIDRs = { IPv4: "10.244.1.0/24", IPv6: "fd00::/64" };
  assert.deepEqual(await placedOn({ nodeIPs: { IPv4: "192.0.2.10", IPv6: "::1" }, podCIDRs }), ["IPv4", "IPv6"]);
  assert.deepEqual(await placedOn({}), ["IPv4", "IPv6"]);
});
