import assert from "node:assert/strict";
import { createSpellings } from "../../../../backends/xtables/realized.ts";

const WRITTEN = { hash: 1, rules: 2 };

Deno.test("a chain that reads the same after two repairs is another spelling, unless a rule is missing from it", () => {
  for (const rules of [2, 1]) {
    const reads = { hash: 2, rules }, spellings = createSpellings();
    const suspicions = [1, 2].map(() => {
      assert.equal(spellings.areSame("nat A", WRITTEN, reads), false);
      return spellings.suspect("nat A", WRITTEN, reads);
    });
    assert.deepEqual(suspicions, [rules === 2, rules === 2]);
    assert.equal(spellings.areSame("nat A", WRITTEN, reads), rules === 2);
  }
});
