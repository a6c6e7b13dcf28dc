import assert from "node:assert/strict";
import { createNftSession } from "../../../../backends/tools/nft_session.ts";
import { type Conversation, type Runner, ToolEndedError } from "../../../../backends/tools/runner.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** A session with nfts that behave by the number of their start; counts the starts. */
function sessionWith(behaviour: (start: number) => "works" | "dies in a transaction" | "prints nothing") {
  const counts = { starts: 0 };
  const runner: Runner = {
    run: () => Promise.reject(new Error("unexpected run")),
    converse(): Conversation {
      const is = behaviour(counts.starts++);
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
  return { counts, transact: () => session.transact(["add element ip s a { 10.0.0.1 }"]) };
}

Deno.test("after an nft that dies, one transaction goes without a session, and the next uses one again", async () => {
  const { counts, transact } = sessionWith((start) => start === 0 ? "dies in a transaction" : "works");
  await assert.rejects(transact(), ToolEndedError);
  assert.equal(await transact(), false);
  assert.equal(counts.starts, 1);
  assert.equal(await transact(), true);
  assert.equal(await transact(), true);
  assert.equal(counts.starts, 2);
});

Deno.test("the pause doubles with each nft that dies", async () => {
  const { counts, transact } = sessionWith(() => "dies in a transaction");
  const outcomes: string[] = [];
  for (let i = 0; i < 100; i++) outcomes.push(await transact().then(String, () => "died"));
  assert.deepEqual(outcomes.flatMap((outcome, i) => outcome === "died" ? [i] : []), [0, 2, 5, 10, 19, 36, 69]);
  assert.equal(counts.starts, 7);
});

Deno.test("a session is opened once an nft that failed to start works again", async () => {
  const { transact } = sessionWith((start) => start < 2 ? "prints nothing" : "works");
  const outcomes: boolean[] = [];
  for (let i = 0; i < 7; i++) outcomes.push(await transact());
  assert.deepEqual(outcomes, [false, false, false, false, false, true, true]);
});

/** A session whose nft prints a listing for each question; `prints` gets its lines, before or after the answer. */
function listingSession(prints: (line: string, print: (line: string) => void) => "answers" | "refuses") {
  const clock = createFakeClock(), asked: string[] = [], timeoutsMs: number[] = [];
  let isAsked = false;
  const runner: Runner = {
    run: () => Promise.reject(new Error("unexpected run")),
    converse: ({ onLine }) => ({
      async ask(text, _end, timeoutMs) {
        assert.ok(!isAsked, "one question at a time");
        timeoutsMs.push(timeoutMs);
        isAsked = true;
        await Promise.resolve();
        isAsked = false;
        const [line = ""] = text.split("\n");
        if (line.startsWith("end ")) return "Error: syntax error\n";
        asked.push(line);
        return `${prints(line, onLine!) === "refuses" ? "Error: No such file\n" : ""}Error: syntax error\n`;
      },
      isOpen: () => true,
      close() {},
    }),
  };
  return { clock, asked, timeoutsMs, session: createNftSession({ runner, clock }) };
}

Deno.test("nft has 5 s to start, 8 s for a transaction or a look at an object, and a minute for a listing", async () => {
  const { session, timeoutsMs } = listingSession((_, print) => {
    print("}");
    return "answers";
  });
  await session.transact(["add element ip s a { 10.0.0.1 }"]);
  await session.shows("list chain ip s a", () => true);
  await session.list("list set ip s a");
  assert.deepEqual(timeoutsMs, [5_000, 8_000, 8_000, 60_000]);
});

Deno.test("a listing ends with its last line, also if that is read after the answer", async () => {
  const { session } = listingSession((line, print) => {
    print(`of ${line}`);
    queueMicrotask(() => setTimeout(() => print("}")));
    return "answers";
  });
  assert.deepEqual(await session.list("list set ip s a"), ["of list set ip s a", "}"]);
});

Deno.test("listings take turns, and each gets its own lines", async () => {
  const { session, asked } = listingSession((line, print) => {
    setTimeout(() => [line, "}"].forEach(print));
    return "answers";
  });
  assert.deepEqual(await Promise.all(["a", "b", "c"].map(session.list)), [["a", "}"], ["b", "}"], ["c", "}"]]);
  assert.deepEqual(asked, ["a", "b", "c"]);
});

Deno.test("a refused listing has no lines, and the session continues", async () => {
  const { session } = listingSession((line, print) => {
    if (line === "absent") return "refuses";
    print("}");
    return "answers";
  });
  assert.equal(await session.list("absent"), undefined);
  assert.deepEqual(await session.list("a"), ["}"]);
});

Deno.test("an nft that does not print the end of a listing is not used for the next one", async () => {
  const { session, clock, asked } = listingSession(() => "answers");
  const listed = assert.rejects(session.list("a"), /did not print the end/);
  await clock.advanceSettled(10_000);
  await listed;
  assert.equal(await session.list("b"), undefined);
  assert.deepEqual(asked, ["a"]);
});

/** How the transactions ended, with nfts that die in one at these starts; each works for a thousand lines otherwise. */
async function endsOf(dies: (start: number) => boolean, transactions: number): Promise<readonly string[]> {
  const { transact } = sessionWith((start) => dies(start) ? "dies in a transaction" : "works"), ends: string[] = [];
  for (let i = 0; i < transactions; i++) ends.push(await transact().then(String, () => "died"));
  return ends;
}

const indicesOf = (ends: readonly string[], what: string) => ends.flatMap((end, i) => end === what ? [i] : []);

Deno.test("a transaction that succeeds ends the growth of the pause", async () => {
  const ends = await endsOf((start) => start !== 3 && start < 5, 1_100), died = indicesOf(ends, "died");
  assert.deepEqual(died.slice(0, 3), [0, 2, 5]);
  assert.deepEqual(ends.slice(died[3], died[3]! + 3), ["died", "false", "true"]);
});

Deno.test("the pause is a thousand calls at most", async () => {
  const died = indicesOf(await endsOf(() => true, 6_000), "died").slice(-3);
  assert.deepEqual(died.map((at) => at - died[0]!), [0, 1_001, 2_002]);
});

Deno.test("an nft is replaced after a thousand lines, and ends after a minute without a call", async () => {
  const clock = createFakeClock();
  let starts = 0, open = 0;
  const runner: Runner = {
    run: () => Promise.reject(new Error("unexpected run")),
    converse(): Conversation {
      starts++;
      open++;
      let isOpen = true;
      return {
        ask: () => Promise.resolve("Error: syntax error\n"),
        isOpen: () => isOpen,
        close() {
          isOpen = false;
          open--;
        },
      };
    },
  };
  const { transact } = createNftSession({ runner, clock });
  // The first line of each nft shows that it works.
  for (let i = 0; i < 999; i++) await transact(["a"]);
  assert.deepEqual([starts, open], [1, 1]);
  for (let i = 0; i < 999; i++) await transact(["a"]);
  assert.deepEqual([starts, open], [2, 1]);
  clock.advance(59_999);
  await transact(["a"]);
  assert.deepEqual([starts, open], [3, 1]);
  clock.advance(59_999);
  assert.equal(open, 1);
  clock.advance(1);
  assert.equal(open, 0);
});

Deno.test("an nft that shows nothing in time is asked again: it may have nothing to show", async () => {
  const { session, clock, asked } = listingSession(() => "answers");
  for (const command of ["a", "b"]) {
    const shown = session.shows(command, () => true);
    await clock.advanceSettled(50);
    assert.equal(await shown, false);
  }
  assert.deepEqual(asked, ["a", "b"]);
});

Deno.test("a listing keeps its lines when nft prints more later", async () => {
  let print = (_: string) => {};
  const { session } = listingSession((_, printLine) => {
    print = printLine;
    print("}");
    return "answers";
  });
  const lines = await session.list("a");
  print("late");
  assert.deepEqual(lines, ["}"]);
});

Deno.test("what a listing shows may come after the end of its first object", async () => {
  const { session } = listingSession((_, print) => {
    for (const line of ["table ip nat {", "}", "jump", "}"]) print(line);
    return "answers";
  });
  const seen: number[] = [];
  const isShown = (lines: readonly string[]) => {
    seen.push(lines.length);
    return lines.includes("jump");
  };
  assert.equal(await session.shows("a", isShown), true);
  assert.deepEqual(seen, [2, 4]);
});

Deno.test("a listing may take a minute, anything that a change may wait for 8 s", async () => {
  const limitsMs: number[] = [];
  const runner: Runner = {
    run: () => Promise.reject(new Error("unexpected run")),
    converse: ({ onLine }) => ({
      ask(text, _end, timeoutMs) {
        if (text.startsWith("end ")) return Promise.resolve("Error: syntax error\n");
        limitsMs.push(timeoutMs);
        onLine!("}");
        return Promise.resolve("Error: syntax error\n");
      },
      isOpen: () => true,
      close() {},
    }),
  };
  const session = createNftSession({ runner, clock: createFakeClock() });
  await session.list("list set ip s a");
  await session.shows("list chain ip s a", () => true);
  await session.transact(["add element ip s a { 10.0.0.1 }"]);
  assert.deepEqual(limitsMs, [60_000, 8_000, 8_000]);
});
