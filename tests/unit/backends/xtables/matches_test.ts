import assert from "node:assert/strict";
import { compareRule } from "../../../../backends/xtables/base_chains.ts";
import { oneOf } from "../../../../backends/xtables/matches.ts";
import type { Family } from "../../../../platform/address.ts";

Deno.test("a probability is printed as iptables-save prints the rounded value of the kernel", () => {
  // As iptables-save 1.8.9 prints them, both flavours.
  const printed: readonly (readonly [left: number, probability: string])[] = [
    [2, "0.50000000000"],
    [3, "0.33333333349"],
    [28, "0.03571428591"],
    [4095, "0.00024420023"],
    [4096, "0.00024414062"],
    [4998, "0.00020008022"],
    [5000, "0.00020000013"],
  ];
  for (const [left, probability] of printed) {
    assert.equal(oneOf(left), `-m statistic --mode random --probability ${probability} `);
  }
  assert.equal(oneOf(1), "");
});

Deno.test("hairpin traffic of any endpoint is found by comparing its addresses, word by word", () => {
  const program = (family: Family) => /--bytecode "(.*)" $/.exec(compareRule(family))![1]!.split(",");
  assert.deepEqual(program("IPv4"), ["6", "32 0 0 12", "7 0 0 0", "32 0 0 16", "29 0 1 0", "6 0 0 1", "6 0 0 0"]);
  assert.deepEqual(program("IPv6"), [
    ...["18", "32 0 0 8", "7 0 0 0", "32 0 0 24", "29 0 13 0", "32 0 0 12", "7 0 0 0", "32 0 0 28", "29 0 9 0"],
    ...["32 0 0 16", "7 0 0 0", "32 0 0 32", "29 0 5 0", "32 0 0 20", "7 0 0 0", "32 0 0 36", "29 0 1 0"],
    ...["6 0 0 1", "6 0 0 0"],
  ]);
});
