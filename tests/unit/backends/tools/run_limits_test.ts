import assert from "node:assert/strict";
import { createRunLimits } from "../../../../backends/tools/run_limits.ts";

const RESTORE = { tool: "iptables-restore", args: ["--noflush", "-w", "5"] };
const LISTING = { tool: "nft", args: ["list", "table", "ip", "sluice"], timeoutMs: 180_000 };

Deno.test("a first run may take as long as its call permits", () => {
  const limits = createRunLimits();
  assert.equal(limits.limitMs(RESTORE, 0), 60_000);
  assert.equal(limits.limitMs(LISTING, 0), 180_000);
});

Deno.test("once a run has ended, one that hangs is killed after 8 s, and later after a slow one", () => {
  const limits = createRunLimits();
  limits.ended(RESTORE, 20, true);
  assert.equal(limits.limitMs(RESTORE, 0), 8_000);
  limits.ended(RESTORE, 5_000, true);
  limits.ended(RESTORE, 20, true);
  assert.equal(limits.limitMs(RESTORE, 0), 20_000);
  assert.equal(limits.limitMs(LISTING, 0), 180_000);
});

Deno.test("each 64 kB of input adds a second, up to the longest time of the call", () => {
  const limits = createRunLimits();
  limits.ended(RESTORE, 20, true);
  assert.equal(limits.limitMs(RESTORE, 10), 18_000);
  assert.equal(limits.limitMs(RESTORE, 100), 60_000);
});

Deno.test("no run outlives the longest time of its call", () => {
  const limits = createRunLimits(), count = { ...RESTORE, timeoutMs: 2_000 };
  limits.ended(count, 1_900, true);
  assert.equal(limits.limitMs(count, 0), 2_000);
});

Deno.test("a tool that is too slow for the limit gets more time after every fourth run, until one ends", () => {
  const limits = createRunLimits();
  limits.ended(RESTORE, 20, true);
  const limitsMs = Array.from({ length: 14 }, () => {
    const limitMs = limits.limitMs(RESTORE, 0);
    limits.expired(RESTORE);
    return limitMs;
  });
  const expected = [8, 8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 60, 60];
  assert.deepEqual(limitsMs, expected.map((seconds) => seconds * 1000));
  limits.ended(RESTORE, 30, true);
  assert.equal(limits.limitMs(RESTORE, 0), 8_000);
});

Deno.test("calls of one tool that do different things have limits of their own", () => {
  const limits = createRunLimits(), sets = { tool: "nft", args: ["list", "set", "ip", "sluice", "services"] };
  limits.ended(sets, 20, true);
  assert.equal(limits.limitMs({ ...sets, args: ["list", "set", "ip", "sluice", "other"] }, 0), 8_000);
  assert.equal(limits.limitMs({ ...sets, args: ["delete", "set", "ip", "sluice", "other"] }, 0), 60_000);
  assert.equal(limits.limitMs(LISTING, 0), 180_000);
});

Deno.test("a run that fails quickly shortens no limit: a first success may take much longer", () => {
  const limits = createRunLimits();
  limits.ended(RESTORE, 20, false);
  assert.equal(limits.limitMs(RESTORE, 0), 60_000);
});

Deno.test("a run that fails shows that the tool no longer hangs", () => {
  const limits = createRunLimits();
  limits.ended(RESTORE, 20, true);
  for (let run = 0; run < 4; run++) limits.expired(RESTORE);
  assert.equal(limits.limitMs(RESTORE, 0), 16_000);
  limits.ended(RESTORE, 30_000, false);
  assert.equal(limits.limitMs(RESTORE, 0), 8_000);
});
