import assert from "node:assert/strict";
import { createTurns } from "../../../platform/turns.ts";

Deno.test("a step begins after the end of all earlier ones, also of one that failed", async () => {
  const turns = createTurns(), seen: string[] = [], first = Promise.withResolvers<string>();
  const one = turns.take(() => (seen.push("one"), first.promise));
  const two = turns.take(() => (seen.push("two"), Promise.reject(new Error("refused"))));
  const three = turns.take(() => (seen.push("three"), Promise.resolve(3)));
  await Promise.resolve();
  assert.deepEqual(seen, ["one"]);
  first.resolve("done");
  assert.equal(await one, "done");
  await assert.rejects(two, /refused/);
  assert.equal(await three, 3);
  assert.deepEqual(seen, ["one", "two", "three"]);
});

Deno.test("the wait for all steps does not fail with one of them", async () => {
  const turns = createTurns(), step = Promise.withResolvers<void>();
  let hasEnded = false;
  const failing = turns.take(() => step.promise), ended = turns.ended().then(() => hasEnded = true);
  await Promise.resolve();
  assert.equal(hasEnded, false);
  step.reject(new Error("refused"));
  await assert.rejects(failing, /refused/);
  await ended;
});
