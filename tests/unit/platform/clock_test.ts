import assert from "node:assert/strict";
import { startTurn } from "../../../platform/clock.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

Deno.test("long work yields after 20 ms, not before", async () => {
  const clock = createFakeClock();
  const yieldTurn = startTurn(clock);
  await yieldTurn();
  clock.advance(19);
  await yieldTurn();
  clock.advance(1);
  let resumed = false;
  const next = yieldTurn().then(() => resumed = true);
  await settled();
  assert.equal(resumed, false);
  clock.advance(0);
  await next;
  await yieldTurn();
});
