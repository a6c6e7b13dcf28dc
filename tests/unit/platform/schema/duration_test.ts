import assert from "node:assert/strict";
import fc from "fast-check";
import { formatDuration, parseDuration } from "../../../../platform/schema/mod.ts";
import { runs } from "../../../property/runs.ts";

Deno.test("durations parse as in Go", () => {
  const table: readonly [string, number | undefined][] = [
    ["0", 0],
    ["0s", 0],
    ["300ms", 300],
    ["1h2m3s", 3_723_000],
    ["1.5h", 5_400_000],
    [".5s", 500],
    ["1s500ms", 1500],
    ["2us", 0.002],
    ["2µs", 0.002],
    ["7ns", 0.000007],
    ["-1m", -60_000],
    ["+1m", 60_000],
    ["-0s", 0],
    ["", undefined],
    ["5", undefined],
    ["s", undefined],
    ["1 s", undefined],
    ["1d", undefined],
    ["1s ", undefined],
    ["--1s", undefined],
    ["1s-1s", undefined],
    ["1e3s", undefined],
    ["9999999h", undefined],
  ];
  for (const [text, ms] of table) assert.equal(parseDuration(text), ms, text);
});

Deno.test("durations are formatted as in Go", () => {
  const table: readonly [number, string][] = [
    [0, "0s"],
    [30_000, "30s"],
    [300, "300ms"],
    [1500, "1.5s"],
    [60_000, "1m0s"],
    [86_400_000, "24h0m0s"],
    [3_723_004, "1h2m3.004s"],
    [0.002, "2µs"],
    [0.000007, "7ns"],
    [-0.0000001, "0s"],
    [-1, "-1ms"],
    [-90_000, "-1m30s"],
  ];
  for (const [ms, text] of table) assert.equal(formatDuration(ms), text);
});

Deno.test("a formatted duration parses back to the same value", () => {
  fc.assert(
    fc.property(fc.integer({ min: -864e12, max: 864e12 }), (ns) => {
      const ms = ns === 0 ? 0 : ns / 1e6;
      assert.equal(parseDuration(formatDuration(ms)), ms);
    }),
    runs(100),
  );
});

Deno.test("every unit has Go's length, with both signs for micro", () => {
  const units = { ns: 1e-6, us: 1e-3, "\u00b5s": 1e-3, "\u03bcs": 1e-3, ms: 1, s: 1e3, m: 60e3, h: 3600e3 };
  for (const [unit, ms] of Object.entries(units)) assert.equal(parseDuration(`2${unit}`), 2 * ms, unit);
});
