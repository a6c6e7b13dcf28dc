import assert from "node:assert/strict";
import { createLedger } from "../../../../backends/ipvs/ledger.ts";
import { createRefusals } from "../../../../backends/reconcile/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";

const ledgerOf = () => createLedger<string>("address", createRefusals(silentLogger));

Deno.test("of several owners the first by name decides, in whatever order they claim, until it releases", () => {
  for (const owners of [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]]) {
    const ledger = ledgerOf();
    for (const owner of owners) ledger.claim("id", owner, `value of ${owner}`);
    assert.equal(ledger.wanted("id"), "value of a");
    ledger.claim("id", "b", "new value of b");
    ledger.release("id", "a");
    assert.equal(ledger.wanted("id"), "new value of b");
    for (const owner of ["b", "c", "nobody"]) ledger.release("id", owner);
    assert.deepEqual([ledger.wanted("id"), ledger.size(), ledger.differences()], [undefined, 0, []]);
  }
});

Deno.test("a difference is what the kernel holds beside what is wanted; only what others have changed is unexpected", () => {
  const ledger = ledgerOf();
  ledger.claim("added", "a", "1");
  ledger.claim("changed", "a", "1");
  ledger.claim("same", "a", "1");
  for (const id of ["added", "changed", "same"]) ledger.settle(id);
  ledger.claim("pending", "a", "1");
  assert.equal(ledger.adopt(new Map([["changed", "2"], ["same", "1"], ["foreign", "3"]])), 3);
  assert.deepEqual(ledger.differences().toSorted((a, b) => a.id < b.id ? -1 : 1), [
    { id: "added", held: undefined, wanted: "1" },
    { id: "changed", held: "2", wanted: "1" },
    { id: "foreign", held: "3", wanted: undefined },
    { id: "pending", held: undefined, wanted: "1" },
  ]);
  assert.equal(ledger.adopt(new Map([["changed", "2"], ["same", "1"], ["foreign", "3"]])), 0);
});

Deno.test("a refused difference is left out until something else is wanted", () => {
  const ledger = ledgerOf();
  ledger.claim("id", "a", "1");
  ledger.refuse("id", "not supported");
  assert.deepEqual(ledger.differences(), []);
  ledger.claim("id", "a", "2");
  assert.deepEqual(ledger.differences(), [{ id: "id", held: undefined, wanted: "2" }]);
});
