/**
 * Runs `deno test` with these arguments and prints only failures and the summary; `N passed | N failed` stands in its
 * last line. Ends with its exit status. Errors that tests cause on purpose are printed only if a test fails, and so is the
 * seed of their random choices.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";

/** The signs of the dot reporter for a passed, an ignored and a failed test, each on a line of its own without a terminal. */
const SIGNS = [".", ",", "!"];

const seed = Deno.env.get("TEST_SEED") ?? String(crypto.getRandomValues(new Uint32Array(1))[0]);
const tests = spawn(Deno.execPath(), ["test", "--quiet", "--reporter=dot", ...Deno.args], {
  stdio: ["ignore", "pipe", "pipe"],
  env: { ...Deno.env.toObject(), TEST_SEED: seed },
});
// `deno task` ends this process, not its child, when the type check beside it fails.
Deno.addSignalListener("SIGTERM", () => {
  tests.kill();
  Deno.exit(1);
});
const ended = once(tests, "close");
const errors = text(tests.stderr);
for await (const line of createInterface({ input: tests.stdout })) {
  if (!SIGNS.includes(stripVTControlCharacters(line))) console.log(line);
}
const [status] = await ended;
if (status !== 0) console.error(`${await errors}\nTEST_SEED=${seed} repeats the random choices`);
Deno.exit(status ?? 1);
