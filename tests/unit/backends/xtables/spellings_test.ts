import assert from "node:assert/strict";
import { createSpellings } from "../../../../backends/xtables/realized.ts";

const WRITTEN = { hash: 1, rules: 2 }, READS = { hash: 2, rules: 2 };

function underTest() {
  const spellings = createSpellings();
  return {
    suspect: (times: number, reads = READS) =>
      Array.from({ length: times }, () => spellings.suspect("nat A", WRITTEN, reads)),
    forget: () => spellings.forget("nat A"),
    isSame: (reads = READS) => spellings.areSame("nat A", WRITTEN, reads),
  };
}

Deno.test("a chain that reads the same after four repairs is another spelling", () => {
  const { suspect, isSame } = underTest();
  assert.deepEqual([suspect(3), isSame()], [[true, true, true], false]);
  assert.deepEqual([suspect(1), isSame()], [[true], true]);
});

Deno.test("a chain from which a rule is missing is no other spelling", () => {
  const { suspect, isSame } = underTest(), reads = { hash: 2, rules: 1 };
  assert.deepEqual([suspect(4, reads), isSame(reads)], [[false, false, false, false], false]);
});

Deno.test("repairs that fail now and then are no other spelling", () => {
  const { suspect, forget, isSame } = underTest();
  suspect(3);
  forget();
  suspect(3);
  assert.equal(isSame(), false);
  suspect(3, { hash: 3, rules: 2 });
  suspect(3);
  assert.equal(isSame(), false);
});
