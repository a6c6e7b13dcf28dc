import assert from "node:assert/strict";
import fc from "fast-check";
import {
  type Balance,
  BALANCE_ALGORITHMS,
  balanceShares,
  balanceTable,
  IPVS_SCHEDULERS,
} from "../../../../core/model/mod.ts";
import { slotTable } from "../../../../core/model/slot_table.ts";
import { runs } from "../../../property/runs.ts";

const CONSISTENT_HASH: Balance = { algorithm: "consistent-hash", hash: "flow" };

const endpoints = (least: number, most: number) =>
  fc.uniqueArray(
    fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255)).map(([a, b, c]) => `10.${a}.${b}.${c}:8080`),
    { minLength: least, maxLength: most },
  );

/** The share of the slots of other endpoints that move when one endpoint is removed. */
function movedByRemoval(list: readonly string[], gone: number): number {
  const rest = list.filter((_, i) => i !== gone);
  const before = balanceTable(CONSISTENT_HASH, { endpoints: list, weights: undefined })!.map((i) => list[i]!);
  const after = balanceTable(CONSISTENT_HASH, { endpoints: rest, weights: undefined })!.map((i) => rest[i]!);
  const others = before.flatMap((endpoint, slot) => endpoint === list[gone] ? [] : [{ endpoint, slot }]);
  return others.filter(({ endpoint, slot }) => after[slot] !== endpoint).length / others.length;
}

Deno.test("removing one of ten endpoints moves at most 12 % of the flows of the others", () => {
  fc.assert(
    fc.property(endpoints(10, 10), fc.nat(9), (list, gone) => {
      assert.ok(movedByRemoval(list, gone) <= 0.12, String(movedByRemoval(list, gone)));
    }),
    runs(100),
  );
});

Deno.test("a table depends on the endpoints alone, not on their order", () => {
  fc.assert(
    fc.property(endpoints(2, 40), (list) => {
      const reversed = list.toReversed();
      const named = (some: readonly string[]) => slotTable(some, undefined, 240).map((i) => some[i]);
      assert.deepEqual(named(reversed), named(list));
    }),
    runs(100),
  );
});

Deno.test("a client reaches the same pod at all ports of a service", () => {
  const ports = (port: number) => ["10.1.0.1", "10.1.0.2", "10.1.0.3"].map((address) => `${address}:${port}`);
  assert.deepEqual(slotTable(ports(443), undefined, 12), slotTable(ports(80), undefined, 12));
});

Deno.test("the slots of equal endpoints differ by one at most", () => {
  fc.assert(
    fc.property(endpoints(1, 100), (list) => {
      const table = balanceTable(CONSISTENT_HASH, { endpoints: list, weights: undefined })!;
      const counts = list.map((_, i) => table.filter((index) => index === i).length);
      assert.ok(Math.max(...counts) - Math.min(...counts) <= 1);
      assert.ok(Math.min(...counts) >= 3);
    }),
    runs(30),
  );
});

const weighted = fc.array(fc.nat(100), { minLength: 1, maxLength: 30 }).filter((weights) => weights.some((w) => w > 0));

Deno.test("shares by weight are exact to within half a percent, and weight 0 gets nothing", () => {
  fc.assert(
    fc.property(weighted, fc.constantFrom<Balance>({ algorithm: "random" }, CONSISTENT_HASH), (weights, balance) => {
      const list = weights.map((_, i) => `10.1.0.${i}:80`), sum = weights.reduce((a, b) => a + b, 0);
      const table = balanceTable(balance, { endpoints: list, weights })!;
      weights.forEach((weight, i) => {
        const share = table.filter((index) => index === i).length / table.length;
        // An endpoint whose share is less than one slot gets a slot.
        assert.ok(
          Math.abs(share - weight / sum) <= 0.005 || weight > 0 && share <= 1 / table.length,
          `${weights}: ${i}`,
        );
        assert.equal(share === 0, weight === 0);
      });
    }),
    runs(100),
  );
});

Deno.test("endpoints of counted connections with one slot each need no table, those without weight do", () => {
  const table = (slots: readonly number[]) =>
    balanceTable({ algorithm: "least-connections", clusterSlots: slots }, {
      endpoints: ["10.1.0.1:80", "10.1.0.2:80"],
      weights: undefined,
      slots,
    });
  assert.equal(table([1, 1]), undefined);
  assert.deepEqual(table([1, 0]), [0]);
});

Deno.test("weights with a small sum have one slot for each unit of weight", () => {
  const table = balanceTable({ algorithm: "random" }, {
    endpoints: ["10.1.0.1:80", "10.1.0.2:80"],
    weights: [30, 10],
  })!;
  assert.deepEqual([...table].sort(), [0, 0, 0, 1]);
});

Deno.test("all ports with the same endpoints share one table, and other weights have another one", () => {
  const at = (port: number) => Array.from({ length: 300 }, (_, i) => `10.1.${i >> 8}.${i & 255}:${port}`);
  const table = (port: number, weights?: readonly number[]) =>
    balanceTable(CONSISTENT_HASH, { endpoints: at(port), weights })!;
  assert.equal(table(80), table(443));
  assert.notDeepEqual(table(80), table(80, at(80).map((_, i) => 1 + i % 2)));
});

Deno.test("without weights, only consistent-hash has a table", () => {
  for (const algorithm of ["random", "round-robin"] as const) {
    assert.equal(balanceTable({ algorithm }, { endpoints: ["10.1.0.1:80"], weights: undefined }), undefined);
  }
});

Deno.test("shares are those of the slots for consistent-hash, those of the weights otherwise, and unknown where the load decides", () => {
  const list = ["10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:80", "10.1.0.4:80", "10.1.0.5:80"];
  assert.deepEqual(balanceShares(undefined, { endpoints: list.slice(0, 2), weights: undefined }), [0.5, 0.5]);
  assert.deepEqual(
    balanceShares(CONSISTENT_HASH, { endpoints: list, weights: undefined }),
    [48, 48, 48, 48, 48].map((slots) => slots / 240),
  );
  const weights = [3, 1, 0, 0, 0];
  assert.deepEqual(balanceShares({ algorithm: "round-robin" }, { endpoints: list, weights }), [0.75, 0.25, 0, 0, 0]);
  assert.equal(balanceShares({ algorithm: "least-connections" }, { endpoints: list, weights: undefined }), undefined);
});

Deno.test("tables never change: nodes of different versions must agree", () => {
  const list = ["10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:80"];
  assert.equal(slotTable(list, undefined, 12).join(""), "200021011212");
  assert.equal(slotTable(["[fd00::1]:80", "[fd00::2]:80"], [1, 3], 12).join(""), "110011110111");
});

Deno.test("no endpoints have no shares, however they are balanced", () => {
  for (const algorithm of [...BALANCE_ALGORITHMS, ...IPVS_SCHEDULERS]) {
    assert.deepEqual(balanceShares({ algorithm }, { endpoints: [], weights: undefined }), [], algorithm);
  }
});
