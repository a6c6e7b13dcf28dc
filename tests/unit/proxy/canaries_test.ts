import assert from "node:assert/strict";
import type { NodeState } from "../../../core/tracking/mod.ts";
import { FAMILIES, type Family } from "../../../platform/mod.ts";
import { silentLogger } from "../../../platform/log.ts";
import { startCanaries } from "../../../proxy/canaries.ts";
import type { ServedFamily } from "../../../proxy/served_family.ts";
import { createFakeClock } from "../../fakes/clock.ts";

const NODE: NodeState = {
  ...{ nodeIPs: { IPv4: "127.0.0.1", IPv6: "::1" }, primaryFamily: "IPv4", zone: "", leaving: false, known: true },
  ...{ podCIDRs: { IPv4: undefined, IPv6: undefined }, deleted: false },
};

/** The families whose canary is placed on a node that serves both. */
async function placedOn(node: Partial<NodeState>): Promise<readonly Family[]> {
  const end = new AbortController();
  const families = FAMILIES.map((family) => ({
    ...{ family, hasServices: () => true, serveCanary() {}, compare() {} },
    examine: () => Promise.resolve([]),
  }));
  const canaries = await startCanaries({
    configuration: {
      canary: { enabled: true, addressRanges: [], intervalMs: 2000, timeoutMs: 1000 },
      canaryRanges: { IPv4: "169.254.238.0/28", IPv6: "fd53:6c75:6963:65::/64" },
    },
    tracking: { node: { state: () => ({ ...NODE, ...node }) } as never },
    families: () => families as unknown as readonly ServedFamily[],
    health: { setPackets() {} },
    nodeEvents: () => undefined,
    onProblems() {},
    clock: createFakeClock(),
    logger: silentLogger,
    signal: end.signal,
  });
  canaries.update();
  const placed = canaries.status().map(({ family }) => family);
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
