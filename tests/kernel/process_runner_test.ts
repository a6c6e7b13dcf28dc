import assert from "node:assert/strict";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import { ToolEndedError, ToolMissingError, ToolTimeoutError } from "../../backends/tools/runner.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";

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

Deno.test("a tool may exit without reading its input", async () => {
  function* endless() {
    for (let i = 0; i < 1_000_000; i++) yield "a line that nobody reads\n";
  }
  const result = await runner.run({ tool: "sh", args: ["-c", "echo no >&2; exit 2"], stdin: endless() });
  assert.deepEqual(result, { exitCode: 2, stdout: "", stderr: "no\n" });
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
  const taken = Promise.withResolvers<void>(), stdin = Array<string>(3).fill("x".repeat(65_536));
  const hanging = runner.run({ tool: "sh", args: [...args, "60"], stdin, onInputTaken: taken.resolve });
  await taken.promise;
  assert.deepEqual(clock.pending(), [11_000]);
  clock.advance(11_000);
  await assert.rejects(hanging, ToolTimeoutError);
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

Deno.test("a conversation returns the answer to each question separately", async () => {
  const talk = runner.converse!({ tool: "sh", args: ["-c", REPEAT] });
  assert.equal(await talk.ask("one\ntwo\nend 1\n", "heard end 1", 5_000), "heard one\nheard two\n");
  assert.equal(await talk.ask("end 2\n", "heard end 2", 5_000), "");
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
  const ended = await runner.run({ tool: "tail", args: [`--pid=${pid.trim()}`, "-f", "/dev/null"], timeoutMs: 20_000 });
  assert.equal(ended.exitCode, 0);
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

for (const [output, redirect] of [["standard error", " >&2"], ["standard output", ""]]) {
  Deno.test(`a tool that floods its ${output} instead of an answer is killed`, async () => {
    const script = `read -r line; yes | head -c 20000000${redirect}; exec sleep 60`;
    const talk = runner.converse!({ tool: "sh", args: ["-c", script], onLine() {} });
    await assert.rejects(talk.ask("one\n", "end", 30_000), ToolEndedError);
    assert.ok(!talk.isOpen());
  });
}

Deno.test("a conversation with a missing tool throws", () => {
  assert.throws(() => runner.converse!({ tool: "sluice-no-such-tool", args: [] }), ToolMissingError);
});

function hex(buffer: ArrayBuffer): string {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
