import assert from "node:assert/strict";
import { createRotation } from "../../../../sources/grpc/mod.ts";

Deno.test("servers are tried in order and again from the first; only the last failure in a row is one of all", () => {
  const rotation = createRotation(3);
  const steps = Array.from({ length: 7 }, () => [rotation.current(), rotation.failed(false)]);
  assert.deepEqual(steps, [[0, false], [1, false], [2, true], [0, false], [1, false], [2, true], [0, false]]);
});

Deno.test("after a server that worked, every other one is tried before all have failed", () => {
  const rotation = createRotation(2);
  assert.equal(rotation.failed(true), false);
  assert.equal(rotation.current(), 1);
  assert.equal(rotation.failed(true), false, "the first failed long ago");
  assert.equal(rotation.current(), 0);
  assert.equal(rotation.failed(false), true);
});

Deno.test("a single server has always failed like all", () => {
  const rotation = createRotation(1);
  assert.deepEqual([rotation.failed(true), rotation.failed(false), rotation.current()], [true, true, 0]);
});
