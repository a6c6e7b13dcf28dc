import assert from "node:assert/strict";
import { createNftSession } from "../../../../backends/nftables/tools.ts";
import { type Conversation, type Runner, ToolEndedError } from "../../../../backends/tools/runner.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** A session with nfts that behave by the number of their start; counts the starts. */
function sessionWith(behaviour: (start: number) => "works" | "dies in a transaction" | "prints nothing") {
  const figures = { starts: 0 };
  const runner: Runner = {
    run: () => Promise.reject(new Error("unexpected run")),
    converse(): Conversation {
      const is = behaviour(figures.starts++);
      let isOpen = true;
      return {
        ask(text) {
          if (is === "prints nothing") return Promise.resolve("");
          if (is === "works" || text.startsWith("end ")) return Promise.resolve("Error: syntax error\n");
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

Deno.test("after an nft that dies, one transaction goes without a session, and the next uses one again", async () => {
  const { figures, transact } = sessionWith((start) => start === 0 ? "dies in a transaction" : "works");
  await assert.rejects(transact(), ToolEndedError);
  assert.equal(await transact(), false);
  assert.equal(figures.starts, 1);
  assert.equal(await transact(), true);
  assert.equal(await transact(), true);
  assert.equal(figures.starts, 2);
});

Deno.test("the pause doubles with each nft that dies", async () => {
  const { figures, transact } = sessionWith(() => "dies in a transaction");
  const outcomes: string[] = [];
  for (let i = 0; i < 100; i++) outcomes.push(await transact().then(String, () => "died"));
  assert.deepEqual(outcomes.flatMap((outcome, i) => outcome === "died" ? [i] : []), [0, 2, 5, 10, 19, 36, 69]);
  assert.equal(figures.starts, 7);
});

Deno.test("a session is opened once an nft that failed to start works again", async () => {
  const { transact } = sessionWith((start) => start < 2 ? "prints nothing" : "works");
  const outcomes: boolean[] = [];
  for (let i = 0; i < 7; i++) outcomes.push(await transact());
  assert.deepEqual(outcomes, [false, false, false, false, false, true, true]);
});
