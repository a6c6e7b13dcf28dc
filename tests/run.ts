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

/** The end of `deno test`. */
export interface TestRun {
  /** 0 if no test failed. */
  readonly status: number;
  /** The printed lines without colors. */
  readonly lines: readonly string[];
}

/** Runs `deno test` as above, in the project's folder. */
export async function runDenoTest(args: readonly string[]): Promise<TestRun> {
  const seed = Deno.env.get("TEST_SEED") ?? String(crypto.getRandomValues(new Uint32Array(1))[0]);
  const tests = spawn(Deno.execPath(), ["test", "--quiet", "--reporter=dot", ...args], {
    cwd: new URL("../", import.meta.url).pathname,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...Deno.env.toObject(), TEST_SEED: seed },
  });
  // `deno task` ends this process, not its child, when the type check beside it fails.
  const end = () => {
    tests.kill();
    Deno.exit(1);
  };
  Deno.addSignalListener("SIGTERM", end);
  const ended = once(tests, "close");
  const errors = text(tests.stderr);
  const lines: string[] = [];
  for await (const line of createInterface({ input: tests.stdout })) {
    const plain = stripVTControlCharacters(line);
    if (SIGNS.includes(plain)) continue;
    lines.push(plain);
    console.log(line);
  }
  const [status] = await ended;
  Deno.removeSignalListener("SIGTERM", end);
  if (status !== 0) console.error(`${await errors}\nTEST_SEED=${seed} repeats the random choices`);
  return { status: status ?? 1, lines };
}

if (import.meta.main) Deno.exit((await runDenoTest(Deno.args)).status);
