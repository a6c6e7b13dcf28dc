import assert from "node:assert/strict";
import { createInterner, internStrings } from "../../../../core/objects/intern.ts";

Deno.test("an interner returns one value per key until its keys are too many or too long", () => {
  const interner = createInterner<{ readonly key: string }>(1_000);
  const get = (key: string) => interner.get(key, () => ({ key }));
  const a = get("a");
  assert.equal(get("a"), a);
  for (let i = 0; i < 100; i++) get(`key ${i}`);
  const other = get("a");
  assert.notEqual(other, a);
  assert.deepEqual(other, a);

  const long = "x".repeat(900);
  assert.notEqual(get(long), get(long));
  assert.equal(get("a"), other);
});

Deno.test("lists that are only equal when joined are not shared", () => {
  assert.deepEqual(internStrings(["a,b"]), ["a,b"]);
  assert.deepEqual(internStrings(["a", "b"]), ["a", "b"]);
});
