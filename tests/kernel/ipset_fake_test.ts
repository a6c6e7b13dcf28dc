/** The fake ipset answers as the real one. `deno task test:ipvs` compares all tools of IPVS mode. */
import assert from "node:assert/strict";
import { createFakeRunner } from "../fakes/runner.ts";
import { comparable, SET_CASES } from "../ipvs/tool_cases.ts";
import { inMemory, onKernel } from "./tool_steps.ts";

for (const { name, steps } of SET_CASES) {
  Deno.test(`the fake matches the real tool: ${name}`, async () => {
    const fake = createFakeRunner({ hasIpvs: true });
    assert.deepEqual(comparable(await inMemory(steps, fake)), comparable(await onKernel(steps)));
  });
}
