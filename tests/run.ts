/**
 * Runs `deno test` and prints only failures and the summary. Errors that tests cause on purpose are printed only if a test
 * fails, and so is the seed of their random choices.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";

/** The signs of the dot reporter for a passed, an ignored and a failed test, each on a line of its own without a terminal. */
const SIGNS = [".", ",", "!"];

/** The longest time without the end of a test, in milliseconds. */
const LONGEST_SILENCE_MS = 1_200_000;

/** The end of `deno test`. */
export interface TestRun {
  /** 0 if no test failed. */
  readonly status: number;
  /** The printed lines without colors. */
  readonly lines: readonly string[];
}

/**
 * Runs `deno test` as above, in the project's folder. All tests share its process, so an assertion of the runtime itself would fail
 * them all: then they run once more, and a line begins with `FLAKY: `. It is killed if no test ends for twenty minutes.
 */
export async function runDenoTest(args: readonly string[]): Promise<TestRun> {
  const seed = Deno.env.get("TEST_SEED") ?? String(crypto.getRandomValues(new Uint32Array(1))[0]);
  const { aborted, ...first } = await runOnce(args, seed);
  if (aborted === undefined) return first;
  console.log(`FLAKY: the runtime aborted: ${aborted} (TEST_SEED=${seed})`);
  const { status, lines } = await runOnce(args, seed);
  return { status, lines };
}

/** A run; `aborted` is the runtime's last line of standard error if it ended itself (SIGABRT). */
async function runOnce(
  args: readonly string[],
  seed: string,
): Promise<TestRun & { readonly aborted: string | undefined }> {
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
  let silence: ReturnType<typeof setTimeout> | undefined;
  const hear = () => {
    clearTimeout(silence);
    silence = setTimeout(() => {
      console.error(`a test hangs: none has ended for ${LONGEST_SILENCE_MS / 1000} s`);
      tests.kill("SIGKILL");
    }, LONGEST_SILENCE_MS);
  };
  hear();
  for await (const line of createInterface({ input: tests.stdout })) {
    hear();
    const plain = stripVTControlCharacters(line);
    if (SIGNS.includes(plain)) continue;
    lines.push(plain);
    console.log(line);
  }
  const [status, signal] = await ended;
  clearTimeout(silence);
  Deno.removeSignalListener("SIGTERM", end);
  if (status !== 0) console.error(`${await errors}\nTEST_SEED=${seed} repeats the random choices`);
  const aborted = signal === "SIGABRT" ? (await errors).trimEnd().split("\n").at(-1) : undefined;
  return { status: status ?? 1, lines, aborted };
}
