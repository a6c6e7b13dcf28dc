import assert from "node:assert/strict";
import { createQuestions } from "../../../platform/questions.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

Deno.test("a question waits as long as it says or for the default time, and an answer ends the wait", async () => {
  const clock = createFakeClock(), asked: number[] = [];
  const questions = createQuestions<string>(clock, 1_000);
  const ask = (timeoutMs?: number) => questions.ask((number) => asked.push(number), timeoutMs);
  const answered = ask(), late = ask(), patient = ask(5_000);
  assert.deepEqual([asked, clock.pending()], [[1, 2, 3], [1_000, 1_000, 5_000]]);
  questions.answer(1, "one");
  assert.equal(await answered, "one");
  await settled();
  assert.deepEqual(clock.pending(), [1_000, 5_000]);
  clock.advance(1_000);
  assert.equal(await late, undefined);
  questions.answer(2, "two late");
  questions.answer(3, "three");
  assert.equal(await patient, "three");
});

Deno.test("a question without a time waits until it is answered, without a timer", async () => {
  const clock = createFakeClock(), questions = createQuestions<string>(clock);
  const answered = questions.ask(() => {});
  assert.deepEqual(clock.pending(), []);
  questions.answer(1, undefined);
  assert.equal(await answered, undefined);
});

Deno.test("a question that cannot be posted is rejected and leaves no timer", async () => {
  const clock = createFakeClock(), questions = createQuestions<string>(clock, 1_000);
  const post = () => {
    throw new Error("not cloneable");
  };
  await assert.rejects(questions.ask(post), /not cloneable/);
  assert.deepEqual(clock.pending(), []);
});
