import assert from "node:assert/strict";
import { createInterner, internStrings } from "../../../../core/objects/intern.ts";

Deno.test("an interner returns one value per key until it is full", () => {
  const interner = createInterner<{ readonly key: string }>(2);
  const get = (key: string) => interner.get(key, () => ({ key }));
  const a = get("a");
  get("b");
  assert.equal(get("a"), a);
  get("c");
  assert.notEqual(get("a"), a);
  assert.deepEqual(get("a"), a);
});

Deno.test("lists that are only equal when joined are not shared", () => {
  assert.deepEqual(internStrings(["a,b"]), ["a,b"]);
  assert.deepEqual(internStrings(["a", "b"]), ["a", "b"]);
});
