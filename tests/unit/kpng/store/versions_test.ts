import assert from "node:assert/strict";
import fc from "fast-check";
import { createVersions } from "../../../../kpng/store/versions.ts";
import { runs } from "../../../property/runs.ts";

const LEAST_WEIGHT = 10;

/** All values after each revision, from 0, and the first revision of which the differences are known. */
function createHistory() {
  const states: ReadonlyMap<string, number>[] = [new Map()];
  const replaced: { readonly revision: number; readonly weight: number }[] = [];
  let floor = 0;
  const sum = (weights: Iterable<number>) => [...weights].reduce((sum, weight) => sum + weight, 0);
  return {
    states,
    floor: () => floor,
    commit(next: ReadonlyMap<string, number>, touched: readonly string[]) {
      const before = states.at(-1)!, revision = states.length;
      for (const key of touched) {
        if (before.get(key) !== next.get(key)) replaced.push({ revision, weight: before.get(key) ?? 1 });
      }
      states.push(next);
      const most = Math.max(LEAST_WEIGHT, sum(next.values()));
      while (sum(replaced.map(({ weight }) => weight)) > most) floor = replaced.shift()!.revision;
    },
  };
}

Deno.test("versions know the differences since every revision, until what they replaced weighs more than the values", () => {
  const key = fc.constantFrom("a", "b", "c", "d");
  const put = fc.record({ key, value: fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }) });
  const property = fc.property(fc.array(fc.array(put, { maxLength: 6 }), { maxLength: 40 }), (rounds) => {
    const versions = createVersions<number>({
      isSame: (a, b) => a === b,
      weightOf: (value) => value,
      leastWeight: LEAST_WEIGHT,
    });
    const history = createHistory();
    for (const round of rounds) {
      const next = new Map(history.states.at(-1)), touched: string[] = [];
      for (const { key, value } of round) {
        versions.put(key, value);
        if (!touched.includes(key)) touched.push(key);
        if (value === undefined) next.delete(key);
        else next.set(key, value);
      }
      const before = history.states.at(-1)!;
      const isChanged = touched.some((key) => before.get(key) !== next.get(key));
      assert.equal(versions.commit(history.states.length), isChanged);
      history.commit(next, touched);
      assert.deepEqual(new Map(versions.values), next);
      history.states.forEach((then, revision) => {
        const changes = versions.since(revision);
        if (revision < history.floor()) return assert.equal(changes, undefined);
        const keys = [...new Set([...then.keys(), ...next.keys()])];
        const expected = keys.filter((key) => then.get(key) !== next.get(key))
          .map((key) => ({ before: then.get(key), after: next.get(key) }));
        const sorted = (list: readonly object[]) => list.map((one) => JSON.stringify(one)).sort();
        assert.deepEqual(sorted(changes!), sorted(expected));
      });
    }
  });
  fc.assert(property, runs(200));
});

Deno.test("changes are in the order in which their values first changed", () => {
  const versions = createVersions<number>({ isSame: (a, b) => a === b, weightOf: () => 1, leastWeight: 1e6 });
  // More than are dropped at once.
  for (let revision = 1; revision <= 3_000; revision++) {
    versions.put(`key ${revision % 3}`, revision);
    versions.commit(revision);
  }
  assert.deepEqual(versions.since(2_998), [{ before: 2_996, after: 2_999 }, { before: 2_997, after: 3_000 }]);
  assert.deepEqual(versions.since(3_000), []);
});

Deno.test("dropped versions do not hide the ones that are kept", () => {
  const versions = createVersions<number>({ isSame: (a, b) => a === b, weightOf: () => 1, leastWeight: 5 });
  for (let revision = 1; revision <= 3_000; revision++) {
    versions.put("key", revision);
    versions.commit(revision);
    if (revision < 6) continue;
    assert.equal(versions.since(revision - 6), undefined);
    assert.deepEqual(versions.since(revision - 5), [{ before: revision - 5, after: revision }]);
  }
});
