/** The program that runs the tests. */
import assert from "node:assert/strict";
import { runDenoSuite } from "../deno_suite.ts";
import { runDenoTest } from "../run.ts";

/** Runs a file with a passing test and one that does this the first `times` times; returns the status and what was printed. */
async function runMisbehaving(
  how: string,
  times: number,
  run: (options: readonly string[], file: string) => Promise<number>,
): Promise<{ status: number; printed: string }> {
  const folder = await Deno.makeTempDir(), file = `${folder}/misbehaving_test.ts`, printed: string[] = [];
  const { log, error } = console;
  try {
    await Deno.writeTextFile(
      file,
      `Deno.test("passes", () => {});
      Deno.test("misbehaves", () => {
        const runs = [...Deno.readDirSync("${folder}")].filter(({ name }) => name.startsWith("run-")).length;
        if (runs === ${times}) return;
        Deno.writeTextFileSync("${folder}/run-" + runs, "");
        ${how}
      });`,
    );
    console.log = console.error = (text: string) => void printed.push(text);
    const status = await run(["--no-check", "--allow-all"], file);
    return { status, printed: printed.join("\n") };
  } finally {
    Object.assign(console, { log, error });
    await Deno.remove(folder, { recursive: true });
  }
}

const ABORTS = `console.error("Assertion failed.");
  Deno.kill(Deno.pid, "SIGABRT");
  return new Promise(() => {});`;

async function runAborting(times: number): Promise<{ status: number; printed: string }> {
  return await runMisbehaving(ABORTS, times, async (options, file) => (await runDenoTest([...options, file])).status);
}

Deno.test("tests whose process aborts run once more, and are flaky", async () => {
  const once = await runAborting(1);
  assert.equal(once.status, 0, once.printed);
  assert.match(once.printed, /^FLAKY: the runtime aborted: .*\(TEST_SEED=\d+\)$/m);
  assert.match(once.printed, /2 passed/);
  const always = await runAborting(2);
  assert.notEqual(always.status, 0);
});

Deno.test("a failed test runs once more, alone: passed then, it is flaky, and failed again, a failure", async () => {
  // The suite of this test holds the lock that a repetition waits for.
  Deno.env.delete("GATE_LOCK");
  const run = (options: readonly string[], file: string) => runDenoSuite("unit", options, [file]);
  const once = await runMisbehaving('throw new Error("by chance");', 1, run);
  assert.equal(once.status, 0, once.printed);
  assert.match(once.printed, /^FLAKY: unit: misbehaves$/m);
  assert.match(once.printed, /^2 passed, 0 failed$/m);
  const always = await runMisbehaving('throw new Error("always");', 2, run);
  assert.equal(always.status, 1, always.printed);
  assert.match(always.printed, /^failed: misbehaves$/m);
  assert.match(always.printed, /^1 passed, 1 failed$/m);
});
