/**
 * Runs the files `*_test.ts` of a folder of tests, or other files and folders; failed files run once more, alone:
 *
 *     deno_suite.ts NAME [OPTION OF deno test]… [-- PATH…]        without paths: tests/NAME
 */
import { seedOfRun } from "./fakes/random.ts";
import { runDenoTest } from "./run.ts";
import { type Result, runSuite } from "./suite.ts";

const ROOT = new URL("../", import.meta.url).pathname;

/** The paths of the tests of a suite, relative to the project's folder. */
export function testFiles(name: string): readonly string[] {
  return [...Deno.readDirSync(`${ROOT}tests/${name}`)].filter((entry) => entry.name.endsWith("_test.ts"))
    .map((entry) => `tests/${name}/${entry.name}`).sort();
}

/**
 * Runs a suite with these options of `deno test`, of other files and folders than its own if there are paths. Resolves with the
 * exit status.
 */
export function runDenoSuite(name: string, options: readonly string[], paths?: readonly string[]): Promise<number> {
  // Both attempts make the same random choices.
  const seed = String(seedOfRun());
  Deno.env.set("TEST_SEED", seed);
  return runSuite({
    name,
    units: paths ?? testFiles(name),
    attempt: (files) => runFiles(files, options),
    repeat: ({ unit, name: test }) => {
      const command = paths === undefined ? `task test:${name}` : `test ${options.join(" ")} ${unit}`;
      return `TEST_SEED=${seed} deno ${command} --filter ${JSON.stringify(test)}`;
    },
  });
}

async function runFiles(files: readonly string[], options: readonly string[]): Promise<readonly Result[]> {
  const report = await Deno.makeTempFile();
  try {
    const { status, lines } = await runDenoTest([`--junit-path=${report}`, ...options, ...files]);
    const results = await Deno.readTextFile(report).then(readReport);
    for (const line of lines) {
      const [, file] = /^\.\/(\S+) \(uncaught error\)$/.exec(line) ?? [];
      if (file === undefined || results.some(({ unit, passed }) => unit === file && !passed)) continue;
      results.push({ name: line, unit: file, passed: false, tookMs: 0 });
    }
    if (status === 0 || results.some(({ passed }) => !passed)) return results;
    return files.map((unit) => ({ name: `${unit}: deno test exited with ${status}`, unit, passed: false, tookMs: 0 }));
  } finally {
    await Deno.remove(report);
  }
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function plain(text: string): string {
  return text.replaceAll(/&(\w+);/g, (all, name) => ENTITIES[name] ?? all);
}

/**
 * Reads a report of `deno test` in JUnit's format: tests, not their steps. An uncaught error ends a file: it is a failure of the
 * test that ran, and those after it have no result.
 */
function readReport(xml: string): Result[] {
  const results: Result[] = [];
  for (const [, file, suite] of xml.matchAll(/<testsuite name="(?:\.\/)?([^"]*)"[^>]*>([^]*?)<\/testsuite>/g)) {
    const tests = suite!.matchAll(/<testcase name="([^"]*)"[^>]* time="([^"]*)"[^>]*>([^]*?)<\/testcase>/g);
    const inFile: Result[] = [];
    for (const [, name, seconds, outcome] of tests) {
      const isStep = inFile.some((test) => plain(name!).startsWith(`${test.name} > `));
      if (isStep || outcome!.includes("<skipped")) continue;
      const passed = !/<failure|<error/.test(outcome!);
      inFile.push({ name: plain(name!), unit: file!, passed, tookMs: Number(seconds) * 1000 });
      if (outcome!.includes("<error")) break;
    }
    results.push(...inFile);
  }
  return results;
}

if (import.meta.main) {
  const [name, ...args] = Deno.args;
  const end = args.indexOf("--");
  const options = end < 0 ? args : args.slice(0, end);
  Deno.exit(await runDenoSuite(name!, options, end < 0 ? undefined : args.slice(end + 1)));
}
