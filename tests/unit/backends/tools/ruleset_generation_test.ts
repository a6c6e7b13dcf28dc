import assert from "node:assert/strict";
import { openRulesetGeneration, unlessUnchanged } from "../../../../backends/tools/ruleset_generation.ts";

Deno.test("a check that passed is repeated once the ruleset has changed, or its generation is unknown", async () => {
  let generation: number | undefined = 1, passes = true, runs = 0;
  const check = unlessUnchanged(() => generation, () => {
    runs++;
    return Promise.resolve(passes);
  });
  const steps: readonly [what: string, generation: number | undefined, passes: boolean, runs: number][] = [
    ["the first check", 1, true, 1],
    ["nothing has changed", 1, true, 1],
    ["a change", 2, true, 2],
    ["a change that fails the check", 3, false, 3],
    ["a check that failed is repeated", 3, false, 4],
    ["it passes again", 3, true, 5],
    ["nothing has changed", 3, true, 5],
    ["an unknown generation", undefined, true, 6],
    ["a check without a generation proves nothing later", undefined, true, 7],
    ["the generation is known again", 3, true, 8],
    ["a check that fails meanwhile", undefined, false, 9],
    ["what passed at this generation before proves nothing", 3, false, 10],
  ];
  for (const [what, now, result, wanted] of steps) {
    [generation, passes] = [now, result];
    assert.equal(await check(), result, what);
    assert.equal(runs, wanted, what);
  }
});

Deno.test("a change during a check makes the next one run", async () => {
  let generation = 1, runs = 0;
  const check = unlessUnchanged(() => generation, () => {
    if (runs++ === 0) generation++;
    return Promise.resolve(true);
  });
  for (const wanted of [1, 2, 2]) {
    await check();
    assert.equal(runs, wanted);
  }
});

Deno.test("a check that throws proves nothing", async () => {
  const results = [() => Promise.reject(new Error("busy")), () => Promise.resolve(false), () => Promise.resolve(true)];
  const check = unlessUnchanged(() => 1, () => results.shift()!());
  await assert.rejects(check(), /busy/);
  assert.deepEqual([await check(), await check(), await check()], [false, true, true]);
});

Deno.test("without a generation every check runs", async () => {
  let runs = 0;
  const check = unlessUnchanged(undefined, () => Promise.resolve(++runs > 0));
  for (const wanted of [1, 2]) {
    await check();
    assert.equal(runs, wanted);
  }
});

Deno.test({
  name: "without the permission to load the C library there is no generation",
  permissions: { ffi: false },
  fn: () => assert.equal(openRulesetGeneration(), undefined),
});
