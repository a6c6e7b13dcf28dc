/**
 * Objects and the families that they change, from kube-proxy's meta_proxier_test.go (new in 1.37) and node_test.go. Slices of
 * domain names are in endpoint_slice_test.ts.
 */
import assert from "node:assert/strict";
import { type ClusterObject, KINDS } from "../../../../core/objects/cluster_object.ts";
import { createTracking } from "../../../../core/tracking/trackers.ts";
import { FAMILIES, type Family } from "../../../../platform/address.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";

function createSynced() {
  const tracking = createTracking({
    ...{ kinds: KINDS, nodeName: "here", bindAddress: "", clock: createFakeClock() },
    onChange() {},
    onProblems() {},
  });
  for (const kind of KINDS) tracking.synced(kind);
  tracking.take();
  return tracking;
}

const ADDRESS: Readonly<Record<Family, string>> = { IPv4: "10.1.0.1", IPv6: "fd00::1" };
const slice = (family: Family, ready = true) =>
  endpointSlice(`ns/web-${family.toLowerCase()}`, [endpoint(ADDRESS[family], { ready })], { family });

Deno.test("kube-proxy's families: a slice changes its own family alone, when it comes, changes and goes", () => {
  const tracking = createSynced();
  const changed = () => {
    const { endpoints } = tracking.take();
    return FAMILIES.filter((family) => endpoints[family].services.size > 0);
  };
  for (const family of FAMILIES) {
    tracking.set(slice(family));
    assert.deepEqual(changed(), [family]);
    tracking.set(slice(family, false));
    assert.deepEqual(changed(), [family]);
    tracking.delete({ kind: "EndpointSlice", namespace: "ns", name: `web-${family.toLowerCase()}` });
    assert.deepEqual(changed(), [family]);
  }
});

Deno.test("kube-proxy's families: a service, its deletion, the zone of the node and service ranges are for both", () => {
  const tracking = createSynced();
  const set = (...objects: ClusterObject[]) => {
    for (const object of objects) tracking.set(object);
    return tracking.take();
  };
  const web = service("ns/web", { clusterIPs: ["10.96.0.1", "fd00:96::1"] });
  assert.deepEqual([...set(web).services], ["ns/web"]);
  tracking.delete({ kind: "Service", namespace: "ns", name: "web" });
  assert.deepEqual([...tracking.take().services], ["ns/web"]);
  assert.deepEqual(set(node("here", { zone: "a" })).node?.changed, ["zone", "known"]);
  set({ kind: "ServiceCIDR", name: "kubernetes", cidrs: ["10.0.0.0/16", "2001:db8::/64"] });
  assert.deepEqual(tracking.serviceCIDRs.ranges(), { IPv4: ["10.0.0.0/16"], IPv6: ["2001:db8::/64"] });
});

Deno.test("kube-proxy's node: other addresses are a change, where kube-proxy exits since 1.37; the same ones are none", () => {
  const tracking = createSynced();
  const take = (...addresses: string[]) => {
    tracking.set(node("here", { addresses }));
    const change = tracking.take().node;
    return [change?.changed, change?.after.nodeIPs];
  };
  const first = ["192.168.1.1", "fd00:1:2:3::1"], second = ["10.0.1.1", "fd00:3:2:1::2"];
  take(...first);
  assert.deepEqual(take(...first), [undefined, undefined]);
  assert.deepEqual(take(...second), [["nodeIPs"], { IPv4: second[0], IPv6: second[1] }]);
});
