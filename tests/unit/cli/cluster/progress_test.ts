import assert from "node:assert/strict";
import { showProgress } from "../../../../cli/cluster/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

Deno.test("progress appears after a second, and only what is quick stays silent", () => {
  for (const isTerminal of [true, false]) {
    const clock = createFakeClock();
    let written = "", answers = 3;
    const show = () => showProgress(clock, () => `${answers} of 9`, (text) => written += text, isTerminal);
    const quick = show();
    clock.advance(900);
    quick();
    clock.advance(5000);
    assert.equal(written, "");
    const slow = show();
    clock.advance(1000);
    answers = 5;
    clock.advance(1000);
    slow();
    clock.advance(5000);
    assert.equal(written, isTerminal ? "\r\x1b[K3 of 9\r\x1b[K5 of 9\r\x1b[K" : "3 of 9\n");
  }
});
