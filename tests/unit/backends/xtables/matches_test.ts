import assert from "node:assert/strict";
import { oneOf } from "../../../../backends/xtables/matches.ts";

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
