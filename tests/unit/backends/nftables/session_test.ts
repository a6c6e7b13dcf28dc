import assert from "node:assert/strict";
import { createNftSession } from "../../../../backends/nftables/session.ts";
import { type Conversation, type Runner, ToolEndedError } from "../../../../backends/tools/runner.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** An nft to talk with that is as `mood` says when it is started; how often it was. */
function moody(mood: (start: number) => "well" | "dies when it is told something" | "says nothing that makes sense") {
  const figures = { starts: 0 };
  const runner: Runner = {
    run: () => Promise.reject(new Error("nobody asked for a run")),
    converse(): Conversation {
      const is = mood(figures.starts++);
      let isOpen = true;
      return {
        ask(text) {
          if (is === "says nothing that makes sense") return Promise.resolve("");
          if (is === "well" || text.startsWith("end ")) return Promise.resolve("Error: syntax error\n");
          isOpen = false;
          return Promise.reject(new ToolEndedError("nft"));
        },
        isOpen: () => isOpen,
        close: () => isOpen = false,
      };
    },
  };
  const session = createNftSession({ runner, clock: createFakeClock() });
  return { figures, transact: () => session.transact(["add element ip s a { 10.0.0.1 }"]) };
}

Deno.test("an nft that dies over a transaction does not get the one that follows, and is talked with again later", async () => {
  const { figures, transact } = moody((start) => start === 0 ? "dies when it is told something" : "well");
  await assert.rejects(transact(), ToolEndedError);
  assert.equal(await transact(), false);
  assert.equal(figures.starts, 1);
  assert.equal(await transact(), true);
  assert.equal(await transact(), true);
  assert.equal(figures.starts, 2);
});

Deno.test("an nft that dies over everything is talked with less and less", async () => {
  const { figures, transact } = moody(() => "dies when it is told something");
  const outcomes: string[] = [];
  for (let i = 0; i < 100; i++) outcomes.push(await transact().then(String, () => "died"));
  assert.deepEqual(outcomes.flatMap((outcome, i) => outcome === "died" ? [i] : []), [0, 2, 5, 10, 19, 36, 69]);
  assert.equal(figures.starts, 7);
});

Deno.test("an nft that could not be talked with is, once it can be", async () => {
  const { transact } = moody((start) => start < 2 ? "says nothing that makes sense" : "well");
  const outcomes: boolean[] = [];
  for (let i = 0; i < 7; i++) outcomes.push(await transact());
  assert.deepEqual(outcomes, [false, false, false, false, false, true, true]);
});
