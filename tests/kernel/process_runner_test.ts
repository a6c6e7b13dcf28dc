import assert from "node:assert/strict";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import { ToolEndedError, ToolMissingError, ToolTimeoutError } from "../../backends/tools/runner.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";
import { inTime, until } from "../fakes/wait.ts";

const runner = createProcessRunner({ clock: systemClock, path: searchPath() });

Deno.test("a run returns standard output, standard error and the exit code", async () => {
  const result = await runner.run({ tool: "sh", args: ["-c", "echo out; echo err >&2; exit 3"] });
  assert.deepEqual(result, { exitCode: 3, stdout: "out\n", stderr: "err\n" });
});

Deno.test("a tool without input reads an empty standard input", async () => {
  assert.equal((await runner.run({ tool: "cat", args: [] })).stdout, "");
});

Deno.test("the tool receives the whole input, in pieces of any size", async () => {
  function* pieces() {
    for (let i = 0; i < 200_000; i++) yield `é${i}\n`;
  }
  const result = await runner.run({ tool: "sha256sum", args: [], stdin: pieces() });
  const all = new TextEncoder().encode(Array.from(pieces()).join(""));
  assert.equal(result.stdout.slice(0, 64), hex(await crypto.subtle.digest("SHA-256", all)));
});

Deno.test("onLine gets one line at a time, with characters split across chunks intact", async () => {
  const count = 300_000;
  function* pieces() {
    for (let i = 0; i < count; i++) yield `line ${i} é😀\n`;
    yield "last";
  }
  let seen = 0;
  let last = "";
  const result = await runner.run({
    tool: "cat",
    args: [],
    stdin: pieces(),
    onLine: (line) => {
      if (seen < count) assert.equal(line, `line ${seen} é😀`);
      seen++;
      last = line;
    },
  });
  assert.equal(seen, count + 1);
  assert.equal(last, "last");
  assert.equal(result.stdout, "");
});

Deno.test("a tool may exit without reading its input, which is then rendered no further", async () => {
  let rendered = 0;
  function* endless() {
    for (; rendered < 1_000_000; rendered++) yield "a line that nobody reads\n";
  }
  const result = await runner.run({ tool: "sh", args: ["-c", "echo no >&2; exit 2"], stdin: endless() });
  assert.deepEqual(result, { exitCode: 2, stdout: "", stderr: "no\n" });
  assert.ok(rendered < 1_000_000);
});

Deno.test("only the head and the tail of a long standard error are kept", async () => {
  const script = "echo first >&2; yes middle | head -c 999999 >&2; echo last >&2";
  const { stderr } = await runner.run({ tool: "sh", args: ["-c", script] });
  assert.ok(stderr.startsWith("first\nmiddle\n"));
  assert.ok(stderr.endsWith("middle\nlast\n"));
  assert.match(stderr, /… 9\d{5} bytes left out …/);
  assert.ok(stderr.length < 70_000);
});

Deno.test("a missing tool is named in the error", async () => {
  await assert.rejects(
    runner.run({ tool: "sluice-no-such-tool", args: [] }),
    (error) => error instanceof ToolMissingError && error.message.includes("sluice-no-such-tool"),
  );
});

for (
  const [how, script] of [["itself", "exec sleep 60"], [
    "because of its child",
    "sleep 2 </dev/null; true",
  ]] as const
) {
  Deno.test(`a tool that hangs ${how} is killed after the timeout`, async () => {
    await assert.rejects(
      runner.run({ tool: "sh", args: ["-c", script], timeoutMs: 50, stdin: ["x".repeat(1_000_000)] }),
      (error) => error instanceof ToolTimeoutError && error.tool === "sh" && error.timeoutMs === 50,
    );
  });
}

Deno.test("a tool that has worked before is killed after 8 s, however long its calls may take", async () => {
  const clock = createFakeClock(), runner = createProcessRunner({ clock, path: searchPath() });
  const args = ["-c", 'sleep "$1"', "sh"];
  await runner.run({ tool: "sh", args: [...args, "0"] });
  const hanging = runner.run({ tool: "sh", args: [...args, "60"] });
  clock.advance(8_000);
  await assert.rejects(hanging, ToolTimeoutError);
});

Deno.test("a tool that takes its input gets a second more for each 64 kB of it", async () => {
  const clock = createFakeClock(), runner = createProcessRunner({ clock, path: searchPath() });
  const args = ["-c", 'cat >/dev/null; sleep "$1"', "sh"];
  await runner.run({ tool: "sh", args: [...args, "0"], stdin: [] });
  const taken = Promise.withResolvers<void>(), stdin = [...Array<string>(3).fill("x".repeat(65_536)), "rest"];
  const hanging = runner.run({ tool: "sh", args: [...args, "60"], stdin, onInputTaken: taken.resolve });
  await taken.promise;
  assert.deepEqual(clock.pending(), [11_000]);
  clock.advance(11_000);
  await assert.rejects(hanging, ToolTimeoutError);
});

Deno.test("a tool gets four times as long as an earlier run took", async () => {
  const clock = createFakeClock(), runner = createProcessRunner({ clock, path: searchPath() });
  await runner.run({ tool: "echo", args: [], onLine: () => clock.advance(5_000) });
  const next = runner.run({ tool: "echo", args: [] });
  assert.deepEqual(clock.pending(), [20_000]);
  await next;
});

Deno.test("a run that failed gives later ones no limit of 8 s: the first success may take long", async () => {
  const clock = createFakeClock(), runner = createProcessRunner({ clock, path: searchPath() });
  const args = ["-c", 'sleep "$1"; exit "$2"', "sh"];
  await runner.run({ tool: "sh", args: [...args, "0", "1"] });
  const slow = runner.run({ tool: "sh", args: [...args, "60", "0"] });
  assert.deepEqual(clock.pending(), [60_000]);
  clock.advance(60_000);
  await assert.rejects(slow, ToolTimeoutError);
});

Deno.test("a tool that is too slow for its limit gets more time after four runs", async () => {
  const clock = createFakeClock(), runner = createProcessRunner({ clock, path: searchPath() });
  const args = ["-c", 'exec sleep "$1"', "sh"];
  await runner.run({ tool: "sh", args: [...args, "0"] });
  for (const limitMs of [8_000, 8_000, 8_000, 8_000, 16_000]) {
    const slow = runner.run({ tool: "sh", args: [...args, "60"] });
    assert.deepEqual(clock.pending(), [limitMs]);
    clock.advance(limitMs);
    await assert.rejects(slow, ToolTimeoutError);
  }
});

/** Starts a child of a shell that holds only this open, and prints its process ID. */
const HOLDING = {
  "standard input": "exec 3<&0; sleep 600 >/dev/null 2>&1 & echo $!;",
  "standard output": "sleep 600 2>/dev/null & echo $!;",
  "standard error": "sleep 600 >/dev/null & echo $!;",
};

for (const [what, script] of Object.entries(HOLDING)) {
  Deno.test(`the run of a killed tool ends although a child of the tool holds its ${what} open`, async () => {
    const abort = new AbortController(), reason = new Error("not wanted any more");
    let child = "";
    const run = runner.run({
      ...{ tool: "sh", args: ["-c", `${script} exec sleep 600`], stdin: ["x".repeat(1_000_000)], signal: abort.signal },
      onLine(line) {
        child = line;
        abort.abort(reason);
      },
    });
    try {
      await assert.rejects(inTime("the end of the run", run), (error) => error === reason);
    } finally {
      Deno.kill(Number(child), "SIGKILL");
    }
  });
}

Deno.test("the input of a killed tool ends, also for a child of the tool", async () => {
  const abort = new AbortController(), reason = new Error("not wanted any more");
  let child = "";
  const script = "exec 3<&0; (tail --pid=$$ -f /dev/null; cat <&3) >/dev/null 2>&1 & echo $!; exec sleep 600";
  const run = runner.run({
    ...{ tool: "sh", args: ["-c", script], stdin: ["x".repeat(1_000_000)], signal: abort.signal },
    onLine(line) {
      child = line;
      abort.abort(reason);
    },
  });
  await assert.rejects(run, (error) => error === reason);
  await ended(child);
});

Deno.test("a run or a conversation that has ended leaves no listener at the runner's signal", async () => {
  const { signal } = new AbortController(), listeners = new Set<unknown>();
  const { addEventListener: add, removeEventListener: remove } = signal;
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners.add(args[1]);
    add.apply(signal, args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners.delete(args[1]);
    remove.apply(signal, args);
  };
  const stoppable = createProcessRunner({ clock: systemClock, path: searchPath(), signal });
  await stoppable.run({ tool: "true", args: [] });
  assert.equal(listeners.size, 0);
  const talk = stoppable.converse!({ tool: "sh", args: ["-c", REPEAT] });
  await talk.ask("end\n", "heard end", 5_000);
  assert.equal(listeners.size, 1);
  talk.close();
  await until(() => listeners.size === 0);
});

Deno.test("an abort kills running tools and rejects later runs", async () => {
  const stop = new AbortController();
  const stoppable = createProcessRunner({ clock: systemClock, path: searchPath(), signal: stop.signal });
  const reason = new Error("shutting down");
  const script = "echo ready; exec sleep 60";
  await assert.rejects(
    stoppable.run({ tool: "sh", args: ["-c", script], onLine: () => stop.abort(reason) }),
    (error) => error === reason,
  );
  await assert.rejects(stoppable.run({ tool: "true", args: [] }), (error) => error === reason);
});

Deno.test("an abort of one call kills its tool and no other", async () => {
  const abort = new AbortController(), reason = new Error("not wanted any more");
  const stoppable = createProcessRunner({
    clock: systemClock,
    path: searchPath(),
    signal: new AbortController().signal,
  });
  const other = stoppable.run({ tool: "cat", args: [], stdin: ["input"] });
  const script = "echo ready; exec sleep 60";
  await assert.rejects(
    stoppable.run({ tool: "sh", args: ["-c", script], signal: abort.signal, onLine: () => abort.abort(reason) }),
    (error) => error === reason,
  );
  assert.equal((await other).stdout, "input");
});

Deno.test("an error in onLine kills the tool and is rethrown", async () => {
  const failure = new Error("no such chain");
  await assert.rejects(
    runner.run({
      tool: "yes",
      args: [],
      onLine: () => {
        throw failure;
      },
    }),
    (error) => error === failure,
  );
});

Deno.test("a tool is killed, and sees no end of input, if rendering its input fails", async () => {
  const marker = await Deno.makeTempFile();
  const failure = new Error("rendering failed");
  function* broken() {
    yield "x".repeat(100_000);
    throw failure;
  }
  try {
    const script = `cat >/dev/null && echo committed >>"$0"`;
    await assert.rejects(
      runner.run({ tool: "sh", args: ["-c", script, marker], stdin: broken() }),
      (error) => error === failure,
    );
    assert.equal(await Deno.readTextFile(marker), "");
  } finally {
    await Deno.remove(marker);
  }
});

Deno.test("a tool's environment is PATH, LC_ALL=C and no home", async () => {
  for (const name of ["XTABLES_LIBDIR", "LD_PRELOAD", "LD_LIBRARY_PATH"]) Deno.env.set(name, "/nowhere");
  try {
    const { stdout } = await runner.run({ tool: "env", args: [] });
    assert.deepEqual(stdout.trim().split("\n").sort(), ["HOME=/dev/null", "LC_ALL=C", `PATH=${searchPath()}`]);
  } finally {
    for (const name of ["XTABLES_LIBDIR", "LD_PRELOAD", "LD_LIBRARY_PATH"]) Deno.env.delete(name);
  }
});

const REPEAT = 'while read -r line; do echo "heard $line" >&2; done';

Deno.test("a conversation returns the answer to each question separately, and then waits for no time to pass", async () => {
  const clock = createFakeClock(), runner = createProcessRunner({ clock, path: searchPath() });
  const talk = runner.converse!({ tool: "sh", args: ["-c", REPEAT] });
  assert.equal(await talk.ask("one\ntwo\nend 1\n", "heard end 1", 5_000), "heard one\nheard two\n");
  assert.equal(await talk.ask("end 2\n", "heard end 2", 5_000), "");
  assert.deepEqual(clock.pending(), []);
  assert.ok(talk.isOpen());
  talk.close();
  assert.ok(!talk.isOpen());
  await assert.rejects(talk.ask("three\n", "heard three", 5_000), ToolEndedError);
});

Deno.test("a conversation passes the lines of standard output on until it is closed", async () => {
  const lines: string[] = [], arrived = Promise.withResolvers<void>();
  const talk = runner.converse!({
    tool: "sh",
    args: ["-c", 'while read -r line; do echo "out $line"; echo "err $line" >&2; done'],
    onLine(line) {
      lines.push(line);
      if (line === "out end") arrived.resolve();
    },
  });
  assert.equal(await talk.ask("one\nend\n", "err end", 5_000), "err one\n");
  await arrived.promise;
  assert.deepEqual(lines, ["out one", "out end"]);
  talk.close();
});

Deno.test("a conversation closes when its tool exits", async () => {
  const talk = runner.converse!({ tool: "sh", args: ["-c", "read -r line; echo enough >&2; exit 1"] });
  await assert.rejects(talk.ask("one\nend\n", "end", 5_000), ToolEndedError);
  assert.ok(!talk.isOpen());
});

Deno.test("a tool that does not answer a conversation in time is killed", async () => {
  const talk = runner.converse!({ tool: "sh", args: ["-c", "echo $$ >&2; echo ready >&2; exec sleep 600"] });
  const pid = await talk.ask("one\n", "ready", 5_000);
  await assert.rejects(talk.ask("two\n", "end", 50), ToolTimeoutError);
  assert.ok(!talk.isOpen());
  await ended(pid);
});

Deno.test("the input of a tool that was killed in a conversation ends, also for a child of the tool", async () => {
  const script = "exec 3<&0; cat <&3 >/dev/null 2>&1 & echo $! >&2; echo ready >&2; exec sleep 600";
  const talk = runner.converse!({ tool: "sh", args: ["-c", script] });
  const pid = await talk.ask("one\n", "ready", 5_000);
  await assert.rejects(talk.ask("two\n", "end", 50), ToolTimeoutError);
  await ended(pid);
});

Deno.test("lines that a tool prints after its conversation was closed are dropped", async () => {
  const lines: string[] = [];
  const script = "read -r line; echo $$ >&2; echo end >&2; read -r line; echo late";
  const talk = runner.converse!({ tool: "sh", args: ["-c", script], onLine: (line) => lines.push(line) });
  const pid = await talk.ask("one\n", "end", 5_000);
  talk.close();
  await ended(pid);
  assert.deepEqual(lines, []);
});

Deno.test("a tool may print as much as its limit for each question, where a line counts as 32 characters more", async () => {
  let lines = 0;
  const script = 'while read -r count; do yes | head -n "$count"; echo end >&2; done';
  const talk = runner.converse!({
    ...{ tool: "sh", args: ["-c", script], mostOutput: 100 * (1 + 32) },
    onLine: () => void lines++,
  });
  for (const all of [100, 200]) {
    await talk.ask("100\n", "end", 5_000);
    await until(() => lines === all);
  }
  await assert.rejects(talk.ask("101\n", "never", 5_000), ToolEndedError);
});

Deno.test("an abort ends a conversation, and refuses later ones", async () => {
  const stop = new AbortController();
  const stoppable = createProcessRunner({ clock: systemClock, path: searchPath(), signal: stop.signal });
  const talk = stoppable.converse!({ tool: "sh", args: ["-c", REPEAT] });
  await talk.ask("end 1\n", "heard end 1", 5_000);
  stop.abort(new Error("stopping"));
  await assert.rejects(talk.ask("one\n", "never", 20_000), ToolEndedError);
  assert.throws(() => stoppable.converse!({ tool: "cat", args: [] }), /stopping/);
});

Deno.test("a tool that closes its input in a conversation is killed", async () => {
  const script = "read -r line; exec 0<&-; echo $$ >&2; echo ready >&2; exec sleep 600";
  const talk = runner.converse!({ tool: "sh", args: ["-c", script] });
  const pid = await talk.ask("one\n", "ready", 5_000);
  await assert.rejects(talk.ask("two\n", "end", 30_000), ToolEndedError);
  await ended(pid);
});

for (const [output, redirect] of [["standard error", " >&2"], ["standard output", ""]]) {
  Deno.test(`a tool that floods its ${output} instead of an answer is killed`, async () => {
    const script = `echo $$ >&2; echo ready >&2; read -r line; yes | head -c 20000000${redirect}; exec sleep 600`;
    const talk = runner.converse!({ tool: "sh", args: ["-c", script], onLine() {} });
    const pid = await talk.ask("", "ready", 5_000);
    await assert.rejects(talk.ask("one\n", "end", 30_000), ToolEndedError);
    assert.ok(!talk.isOpen());
    await ended(pid);
  });
}

Deno.test("a conversation with a missing tool throws", () => {
  assert.throws(() => runner.converse!({ tool: "sluice-no-such-tool", args: [] }), ToolMissingError);
});

/** Resolves when a process has ended. */
async function ended(pid: string): Promise<void> {
  const args = [`--pid=${pid.trim()}`, "-f", "/dev/null"];
  assert.equal((await runner.run({ tool: "tail", args, timeoutMs: 20_000 })).exitCode, 0);
}

function hex(buffer: ArrayBuffer): string {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
