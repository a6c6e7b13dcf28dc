import assert from "node:assert/strict";
import { nearest } from "../../../platform/text.ts";

Deno.test("the nearest name has the smallest edit distance, if any is similar", () => {
  const names = ["masqueradeAll", "masqueradeBit", "syncPeriod", "mode"];
  const table: readonly [string, string | undefined][] = [
    ["masqueradAll", "masqueradeAll"],
    ["MASQUERADEBIT", "masqueradeBit"],
    ["syncPeriods", "syncPeriod"],
    ["mdoe", "mode"],
    ["somethingElse", undefined],
    ["x", undefined],
    ["mode".repeat(250_000), undefined],
  ];
  for (const [typed, meant] of table) assert.equal(nearest(typed, names), meant, typed);
});
