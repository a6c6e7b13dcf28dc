import assert from "node:assert/strict";
import { createInterner, internStrings } from "../../../../core/objects/intern.ts";

Deno.test("an interner hands out one value per key, and forgets when it is full", () => {
  const interner = createInterner<{ readonly key: string }>(2);
  const get = (key: string) => interner.get(key, () => ({ key }));
  const a = get("a");
  get("b");
  assert.equal(get("a"), a);
  get("c");
  assert.notEqual(get("a"), a);
  assert.deepEqual(get("a"), a);
});

Deno.test("lists that only look alike when joined are kept apart", () => {
  assert.deepEqual(internStrings(["a,b"]), ["a,b"]);
  assert.deepEqual(internStrings(["a", "b"]), ["a", "b"]);
});
