import assert from "node:assert/strict";
import type { LivePod } from "../../../../core/objects/mod.ts";
import { reviseSlices, slicesWithPodsOf } from "../../../../sources/kept/pods.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";

function live(name: string, addresses: readonly string[] | undefined, more: Partial<LivePod> = {}): LivePod {
  return {
    namespace: "default",
    name,
    uid: `uid-${name}`,
    isStatic: false,
    usesHostNetwork: false,
    addresses,
    ...more,
  };
}

function local(name: string, address: string) {
  return { ...endpoint(address, { nodeName: "here" }), pod: { namespace: "default", name, uid: `uid-${name}` } };
}

/** The addresses of a slice with these endpoints, and the counts, in one list. */
function revised(endpoints: Parameters<typeof endpointSlice>[1], ...pods: readonly LivePod[]) {
  const { slices: [slice], replaced, leftOut } = reviseSlices(
    "here",
    [endpointSlice("default/web-1", endpoints)],
    pods,
  );
  return [...slice!.endpoints.map(({ address }) => address), { replaced, leftOut }];
}

Deno.test("endpoints get the addresses of their pods, and those of pods that do not run are left out", () => {
  const endpoints = [local("a", "10.1.0.1"), local("b", "10.1.0.2"), local("c", "10.1.0.3"), endpoint("10.2.0.1")];
  assert.deepEqual(revised(endpoints, live("a", ["10.1.0.9"]), live("b", ["10.1.0.2"])), [
    "10.1.0.9",
    "10.1.0.2",
    "10.2.0.1",
    { replaced: 1, leftOut: 1 },
  ]);
});

Deno.test("addresses are of the slice's family", () => {
  const dual = live("a", ["10.1.0.9", "fd00::9"]);
  assert.deepEqual(revised([local("a", "10.1.0.1")], dual), ["10.1.0.9", { replaced: 1, leftOut: 0 }]);
  const slice = endpointSlice("default/web-2", [local("a", "fd00::1")], { family: "IPv6" });
  assert.equal(reviseSlices("here", [slice], [dual]).slices[0]!.endpoints[0]!.address, "fd00::9");
  assert.deepEqual(reviseSlices("here", [slice], [live("a", ["10.1.0.9"])]).slices[0]!.endpoints, []);
});

Deno.test("a pod of the same name with another UID is another pod, unless it is static", () => {
  const endpoints = [local("a", "10.1.0.1")];
  const other = live("a", ["10.1.0.9"], { uid: "another" });
  assert.deepEqual(revised(endpoints, other), [{ replaced: 0, leftOut: 1 }]);
  assert.deepEqual(revised(endpoints, { ...other, namespace: "other", isStatic: true }), [{ replaced: 0, leftOut: 1 }]);
  assert.deepEqual(revised(endpoints, { ...other, isStatic: true }), ["10.1.0.9", { replaced: 1, leftOut: 0 }]);
});

Deno.test("endpoints in the node's network, and those whose address is not known, stay", () => {
  const endpoints = [local("a", "192.168.0.1"), local("b", "10.1.0.2")];
  const pods = [live("a", [], { usesHostNetwork: true }), live("b", undefined)];
  assert.deepEqual(revised(endpoints, ...pods), ["192.168.0.1", "10.1.0.2", { replaced: 0, leftOut: 0 }]);
});

Deno.test("only endpoints of pods of this node are revised", () => {
  const elsewhere = { ...local("a", "10.2.0.1"), nodeName: "there" };
  assert.deepEqual(revised([elsewhere]), ["10.2.0.1", { replaced: 0, leftOut: 0 }]);
  const slices = [[endpoint("10.2.0.1")], [elsewhere], [elsewhere, local("a", "10.1.0.1")]]
    .map((endpoints, i) => endpointSlice(`default/web-${i}`, endpoints));
  const found = slicesWithPodsOf("here", [service("default/web"), ...slices]);
  assert.deepEqual(found.map(({ name }) => name), ["web-2"]);
});
