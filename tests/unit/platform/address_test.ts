import assert from "node:assert/strict";
import { canonicalPrefix } from "../../../platform/address.ts";

Deno.test("an IPv4 address in the form of an IPv6 one has no prefix: its length could mean either", () => {
  for (const text of ["::ffff:10.0.0.1/8", "::ffff:10.0.0.1/104", "::ffff:a00:1/24"]) {
    assert.equal(canonicalPrefix(text), undefined, text);
  }
  assert.equal(canonicalPrefix("fd00::a00:1/104"), "fd00::a00:0/104");
});
