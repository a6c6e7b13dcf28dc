import assert from "node:assert/strict";
import { rateText } from "../../../platform/text.ts";

Deno.test("rates have three digits and a unit", () => {
  const rates = [0, 0.05, 0.123, 9.994, 9.996, 12.34, 99.96, 999.4, 999.6, 1234, 12_345_678, 5e12];
  assert.deepEqual(rates.map(rateText), [
    ...["0", "0.05", "0.12", "9.99", "10", "12.3", "100", "999", "1k", "1.23k", "12.3M", "5000G"],
  ]);
});
