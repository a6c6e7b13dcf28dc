import assert from "node:assert/strict";
import fc from "fast-check";
import { differsInEndpointsOnly, editsSize, endpointEdits, withEdits } from "../../../../core/model/mod.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { runs } from "../../../property/runs.ts";

const NAMES = ["a", "b", "c", "d", "e", "f", "g"].map((letter) => `${letter}:80`);
const port = (clusterEndpoints: readonly string[], localEndpoints: readonly string[] = []) =>
  fakeServicePort("default/web", { clusterEndpoints, localEndpoints });

Deno.test("edits turn the endpoints of a service port into others; of sorted lists, they are as few as possible", () => {
  const list = fc.subarray(NAMES), shuffled = fc.shuffledSubarray(NAMES);
  const lists = fc.oneof(fc.tuple(list, list, list, list), fc.tuple(shuffled, shuffled, shuffled, shuffled));
  const property = fc.property(lists, ([before, local, after, localAfter]) => {
    const from = port(before, local), to = port(after, localAfter), edits = endpointEdits(from, to);
    assert.deepEqual(withEdits(from, edits), to);
    const isSorted = [before, local, after, localAfter].every((one) => one.toSorted().join() === one.join());
    if (!isSorted) return;
    const apart = (one: readonly string[], other: readonly string[]) =>
      new Set(one).symmetricDifference(new Set(other)).size;
    assert.equal(editsSize(edits), apart(before, after) + apart(local, localAfter));
  });
  fc.assert(property, runs(300));
});

Deno.test("equal lists need no edit, and stay the same object", () => {
  const one = port(["a:80", "b:80"]), edits = endpointEdits(one, port(["a:80", "b:80"]));
  assert.equal(editsSize(edits), 0);
  assert.equal(withEdits(one, edits).clusterEndpoints, one.clusterEndpoints);
});

Deno.test("service ports that differ in another field than their endpoints cannot be turned into each other", () => {
  assert.ok(differsInEndpointsOnly(port(["a:80"]), port([], ["b:80"])));
  assert.ok(!differsInEndpointsOnly(port(["a:80"]), { ...port(["a:80"]), affinitySeconds: 1 }));
});
