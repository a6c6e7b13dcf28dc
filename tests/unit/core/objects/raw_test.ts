import assert from "node:assert/strict";
import { quote } from "../../../../core/objects/raw.ts";

Deno.test("a quoted value stays one line and shows control characters escaped", () => {
  assert.equal(quote("a\nb\u202ec\u200bd\u0000"), '"a\\nb\\u202ec\\u200bd\\u0000"');
  assert.equal(quote("日本語 é"), '"日本語 é"');
});
