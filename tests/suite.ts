/**
 * Runs a suite so that chance does not fail it: what failed runs once more after the rest, alone, and counts as failed only if it
 * fails again.
 *
 * GATE_LOCK names a file for suites that run at the same time (not below /run, which isolated suites do not see): each locks it
 * (flock) shared while it runs, and exclusively while something runs again. Without it, nothing is locked.
 */

/** The result of a test or scenario. */
export interface Result {
  readonly name: string;
  /** The smallest unit that can run again and has it: itself, or a file. */
  readonly unit: string;
  readonly passed: boolean;
  readonly tookMs: number;
}

/** A suite. */
export interface Suite {
  /** As in `deno task test:NAME`. */
  readonly name: string;
  readonly units: readonly string[];
  /** Runs units, alone or several at a time, and prints their errors. */
  attempt(units: readonly string[], alone: boolean): Promise<readonly Result[]>;
  /** The command that repeats a failed test. */
  repeat(result: Result): string;
}

/** More failures than these are not chance: nothing runs again. */
const MOST_AGAIN = 5;
const MOST_SLOWEST = 10;

/**
 * Runs a suite and prints `FLAKY: SUITE: NAME` for what failed once, `failed: NAME` for what failed twice, the slowest ten, and
 * `N passed, N failed`. Resolves with the exit status.
 */
export async function runSuite({ name, units, attempt, repeat }: Suite): Promise<number> {
  const first = await locked(false, () => attempt(units, false));
  const failedFirst = first.filter(({ passed }) => !passed);
  const again = new Set(failedFirst.map(({ unit }) => unit));
  let results = first;
  if (again.size > 0 && again.size <= MOST_AGAIN) {
    console.log(`\nonce more, alone: ${[...again].join("; ")}`);
    const second = await locked(true, () => attempt([...again], true));
    results = [...first.filter(({ unit }) => !again.has(unit)), ...second];
  }
  const failed = results.filter(({ passed }) => !passed);
  const failedUnits = new Set(failed.map(({ unit }) => unit));
  const known = knownFlaky();
  for (const { name: test, unit } of failedFirst) {
    if (failedUnits.has(unit)) continue;
    console.log(`${known.has(`${name}: ${test}`) ? "known to be flaky" : "FLAKY"}: ${name}: ${test}`);
  }
  for (const result of failed) console.log(`failed: ${result.name}\n  repeat: ${repeat(result)}`);
  for (const { name, tookMs } of results.toSorted((a, b) => b.tookMs - a.tookMs).slice(0, MOST_SLOWEST)) {
    console.log(`slowest: ${(tookMs / 1000).toFixed(1)} s ${name}`);
  }
  console.log(`\n${results.length - failed.length} passed, ${failed.length} failed`);
  return failed.length === 0 && results.length > 0 ? 0 : 1;
}

/** The lines `SUITE: NAME` of tests/flaky.txt. */
function knownFlaky(): ReadonlySet<string> {
  const text = Deno.readTextFileSync(new URL("./flaky.txt", import.meta.url));
  return new Set(text.split("\n").filter((line) => line !== "" && !line.startsWith("#")));
}

async function locked<T>(exclusive: boolean, run: () => Promise<T>): Promise<T> {
  const path = Deno.env.get("GATE_LOCK");
  if (!path) return await run();
  using file = await Deno.open(path, { read: true, write: true, create: true });
  await file.lock(exclusive);
  return await run();
}
