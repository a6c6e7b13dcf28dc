import assert from "node:assert/strict";
import { findRefused } from "../../../../backends/reconcile/refusals.ts";

/** A kernel that refuses a write with a bad item in it; the items in `together` are bad only in one write. */
function kernel({ bad = [], together = [], budget = 100 }: { bad?: number[]; together?: number[]; budget?: number }) {
  const written: number[] = [];
  let attempts = 0;
  const refuses = (items: readonly number[]) =>
    items.some((item) => bad.includes(item)) || (together.length > 0 && together.every((item) => items.includes(item)));
  return {
    written,
    attempts: () => attempts,
    search: {
      attempt(items: readonly number[]) {
        attempts++;
        if (refuses(items)) return Promise.resolve(`no to ${items.length}`);
        written.push(...items);
        return Promise.resolve(undefined);
      },
      culpritOf: (items: readonly number[]) => items.length === 1 ? items[0] : undefined,
      budget: { left: budget },
    },
  };
}

const ITEMS = Array.from({ length: 100 }, (_, i) => i);

Deno.test("a refused item is found in a few attempts, and each other item is written once or returned as untried", async () => {
  for (const bad of ITEMS) {
    const { written, attempts, search } = kernel({ bad: [bad] });
    const found = await findRefused(ITEMS, "no to 100", search);
    assert.ok(found && found !== "all written");
    assert.equal(found.culprit, bad);
    assert.equal(found.failure, "no to 1");
    assert.deepEqual([...written, ...found.untried], ITEMS.filter((item) => item !== bad));
    assert.ok(attempts() <= 14, `${attempts()} attempts`);
  }
});

Deno.test("of several refused items the first is found", async () => {
  const { search } = kernel({ bad: [77, 12, 50] });
  const found = await findRefused(ITEMS, "no to 100", search);
  assert.equal(typeof found === "object" && found.culprit, 12);
});

Deno.test("items that are refused only together are written in two groups", async () => {
  const { written, search } = kernel({ together: [3, 97] });
  assert.equal(await findRefused(ITEMS, "no to 100", search), "all written");
  assert.deepEqual(written, ITEMS);
});

Deno.test("without a budget nothing is bisected and there is no culprit", async () => {
  const { attempts, search } = kernel({ bad: [5], budget: 0 });
  assert.equal(await findRefused(ITEMS, "no to 100", search), undefined);
  assert.equal(attempts(), 0);
});

Deno.test("a culprit that the message names is not searched for", async () => {
  const { attempts, search } = kernel({ bad: [5] });
  const found = await findRefused(ITEMS, "line 6: no", { ...search, culpritOf: () => "the sixth" });
  assert.deepEqual(found, { culprit: "the sixth", failure: "line 6: no", untried: [] });
  assert.equal(attempts(), 0);
});
