import assert from "node:assert/strict";
import { balanceText, choiceText, sharesByTarget, sharesText } from "../../../answers/balance.ts";
import type { Balance } from "../../../core/model/mod.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";

Deno.test("shares are in percent with one decimal, both policies' if they differ", () => {
  for (
    const [shares, text] of [
      [{}, ""],
      [{ cluster: 0.25 }, "25 %"],
      [{ local: 1 / 3 }, "33.3 %"],
      [{ cluster: 0.5, local: 0.5, open: 3 }, "50 %, 3 open"],
      [{ cluster: 0.5, local: 0.25 }, "50 %, Local 25 %"],
      [{ cluster: 0, local: 1 }, "0 %, Local 100 %"],
    ] as const
  ) assert.equal(sharesText(shares), text);
});

const WEIGHTED = { clusterWeights: [1, 2] }, LOCALLY = { localWeights: [1] };
/** Algorithms with their name in a list, and how a connection gets its endpoint. */
const WORDS: readonly (readonly [balance: Balance | undefined, name: string, choice: string])[] = [
  [undefined, "", "with equal probability"],
  [{ algorithm: "random", ...WEIGHTED }, "random, weighted", "at random, by weight"],
  [{ algorithm: "round-robin" }, "round-robin", "in turn"],
  [{ algorithm: "round-robin", ...LOCALLY }, "round-robin, weighted", "in turn, by weight"],
  [
    { algorithm: "consistent-hash", hash: "client" },
    "consistent-hash by client",
    "by a hash of the client's address",
  ],
  [{ algorithm: "least-connections" }, "least-connections", "with the fewest connections"],
  [
    { algorithm: "least-connections", clusterSlots: [1, 1] },
    "least-connections",
    "at random, weighted by open connections",
  ],
];

Deno.test("an algorithm has a name in lists, and words for a connection", () => {
  for (const [balance, name, choice] of WORDS) {
    assert.equal(balance === undefined ? "" : balanceText(balance), name);
    assert.equal(choiceText(balance), choice);
  }
});

Deno.test("open connections are shown where shares follow from them, and not otherwise", () => {
  const clusterEndpoints = ["10.1.0.1:80", "10.1.0.2:80"];
  const sharesOf = (
    balance: Balance | undefined,
  ) => [...sharesByTarget(fakeServicePort("default/web", { clusterEndpoints, balance }), () => 7).values()];
  assert.deepEqual(sharesOf(undefined), []);
  assert.deepEqual(sharesOf({ algorithm: "round-robin" }), [{ cluster: 0.5 }, { cluster: 0.5 }]);
  assert.deepEqual(sharesOf({ algorithm: "least-connections", clusterSlots: [1, 3] }), [
    { cluster: 0.25, open: 7 },
    { cluster: 0.75, open: 7 },
  ]);
});
