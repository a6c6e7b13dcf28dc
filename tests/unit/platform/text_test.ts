import assert from "node:assert/strict";
import { durationText, rateText } from "../../../platform/text.ts";

Deno.test("rates have three digits and a unit", () => {
  const rates = [0, 0.05, 0.123, 9.994, 9.996, 12.34, 99.96, 999.4, 999.6, 1234, 12_345_678, 5e12];
  assert.deepEqual(rates.map(rateText), [
    ...["0", "0.05", "0.12", "9.99", "10", "12.3", "100", "999", "1k", "1.23k", "12.3M", "5000G"],
  ]);
});

Deno.test("a duration keeps its unit until it has two digits in the next one", () => {
  const texts = {
    ...{ "9.9 ms": 9.94, "10 ms": 9.96, "999 ms": 999.4, "1 s": 1_000, "9.9 s": 9_940, "119 s": 119_400 },
    ...{ "2 min": 120_000, "119 min": 7_199_000, "2 h": 7_200_000, "47 h": 172_799_000, "2 d": 172_800_000 },
  };
  for (const [text, ms] of Object.entries(texts)) assert.equal(durationText(ms), text);
});
