import assert from "node:assert/strict";
import { startTurn } from "../../../platform/turns.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

Deno.test("others get their turn when one has lasted long enough, and not before", async () => {
  const clock = createFakeClock();
  const breathe = startTurn(clock);
  await breathe();
  clock.advance(19);
  await breathe();
  clock.advance(1);
  let resumed = false;
  const next = breathe().then(() => resumed = true);
  await settled();
  assert.equal(resumed, false);
  clock.advance(0);
  await next;
  await breathe();
});
