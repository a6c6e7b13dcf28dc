import assert from "node:assert/strict";
import { createSpellings } from "../../../../backends/reconcile/spellings.ts";

const ID = "nat A";

function underTest() {
  const spellings = createSpellings<string>();
  /** Repairs the object, which reads the same before and, unless told otherwise, after that; returns the numbers of spellings. */
  const repair = (times: number, before = "reads", after = before) =>
    Array.from({ length: times }, () => {
      spellings.begin();
      spellings.question(ID, "written", before);
      return spellings.confirm(() => after);
    });
  return { spellings, repair, reads: (text = "reads") => spellings.asWritten(ID, text) };
}

Deno.test("a text that reads the same after four repairs is another spelling", () => {
  const { repair, reads } = underTest();
  assert.deepEqual([repair(3), reads()], [[1, 1, 1], "reads"]);
  assert.deepEqual([repair(1), reads(), reads("other")], [[1], "written", "other"]);
});

Deno.test("a text that a repair changes is no other spelling", () => {
  const { repair, reads } = underTest();
  assert.deepEqual([repair(4, "reads", "written"), reads()], [[0, 0, 0, 0], "reads"]);
});

Deno.test("repairs that fail now and then are no other spelling", () => {
  const { spellings, repair, reads } = underTest();
  repair(3);
  spellings.forget(ID);
  repair(3);
  assert.equal(reads(), "reads");
  repair(3, "third");
  repair(3);
  assert.equal(reads(), "reads");
});

Deno.test("a listing ends the questions of the one before", () => {
  const { spellings } = underTest();
  spellings.question(ID, "written", "reads");
  assert.equal(spellings.areInQuestion(), true);
  spellings.begin();
  assert.deepEqual([spellings.areInQuestion(), spellings.confirm(() => "reads")], [false, 0]);
});

Deno.test("a spelling that is known for sure needs no repair", () => {
  const { spellings, reads } = underTest();
  spellings.learn(ID, "written", "reads");
  assert.equal(reads(), "written");
  spellings.forget();
  assert.equal(reads(), "reads");
});
