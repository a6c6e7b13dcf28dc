/** The program that runs the tests. */
import assert from "node:assert/strict";
import { runDenoTest } from "../run.ts";

/** Runs tests whose process aborts the first `aborts` times; returns the status and what was printed. */
async function runAborting(aborts: number): Promise<{ status: number; printed: string }> {
  const folder = await Deno.makeTempDir(), printed: string[] = [];
  const { log, error } = console;
  try {
    await Deno.writeTextFile(
      `${folder}/aborting_test.ts`,
      `Deno.test("aborts", () => {
        const runs = [...Deno.readDirSync("${folder}")].filter(({ name }) => name.startsWith("run-")).length;
        if (runs === ${aborts}) return;
        Deno.writeTextFileSync("${folder}/run-" + runs, "");
        console.error("Assertion failed.");
        Deno.kill(Deno.pid, "SIGABRT");
        return new Promise(() => {});
      });`,
    );
    console.log = console.error = (text: string) => void printed.push(text);
    const { status } = await runDenoTest(["--no-check", "--allow-all", `${folder}/aborting_test.ts`]);
    return { status, printed: printed.join("\n") };
  } finally {
    Object.assign(console, { log, error });
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("tests whose process aborts run once more, and are flaky", async () => {
  const once = await runAborting(1);
  assert.equal(once.status, 0, once.printed);
  assert.match(once.printed, /^FLAKY: the runtime aborted: .*\(TEST_SEED=\d+\)$/m);
  assert.match(once.printed, /1 passed/);
  const always = await runAborting(2);
  assert.notEqual(always.status, 0);
});
