/** Which lines each test file runs. */
import { type Copy, root } from "./copy.ts";

/** A file of tests that pass without mutations. */
export interface TestFile {
  /** Its path, relative to the project's root. */
  readonly path: string;
  readonly durationMs: number;
  /** The lines that it runs, by path of the module. */
  readonly lines: ReadonlyMap<string, ReadonlySet<number>>;
  /** The number of all these lines. */
  readonly breadth: number;
}

/** Far more than any file of tests needs. */
const TIMEOUT_MS = 120_000;

/** Runs a file of tests; resolves with undefined if one fails. */
export async function measure(copy: Copy, path: string): Promise<TestFile | undefined> {
  const folder = `${copy.root}coverage`, startedAtMs = performance.now();
  const hasPassed = await copy.test([path], TIMEOUT_MS, `--coverage=${folder}`, "--coverage-raw-data-only");
  const durationMs = performance.now() - startedAtMs;
  if (!hasPassed) return undefined;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["coverage", "--quiet", "--lcov", folder],
    cwd: copy.root,
    stderr: "inherit",
  }).output();
  Deno.removeSync(folder, { recursive: true });
  const lines = linesOf(new TextDecoder().decode(stdout), copy.root);
  return { path, durationMs, lines, breadth: lines.values().reduce((sum, { size }) => sum + size, 0) };
}

/** Returns the files of tests below a folder of `tests`, relative to the project's root. */
export function testFiles(folder: string): readonly string[] {
  return [...Deno.readDirSync(root + folder)].flatMap(({ name, isDirectory }) => {
    if (isDirectory) return testFiles(`${folder}/${name}`);
    return name.endsWith("_test.ts") ? [`${folder}/${name}`] : [];
  }).sort();
}

/**
 * The lines that may have been run, from lcov's format. It gives a line of which a part was not run the count 0, such as
 * `if (a) return;`, so a line also counts if one of its branches was taken, or the line before it was run.
 */
function linesOf(lcov: string, root: string): ReadonlyMap<string, ReadonlySet<number>> {
  return new Map(
    lcov.split("end_of_record").flatMap((record) => {
      const path = /^SF:(.*)$/m.exec(record)?.[1];
      if (!path?.startsWith(root)) return [];
      const run = new Set<number>();
      for (const [, line] of record.matchAll(/^BRDA:(\d+),\d+,\d+,[1-9]/gm)) run.add(Number(line));
      let isBeforeRun = false;
      for (const [, line, count] of record.matchAll(/^DA:(\d+),(\d+)/gm)) {
        const isRun = count !== "0";
        if (isRun || isBeforeRun) run.add(Number(line));
        isBeforeRun = isRun;
      }
      return [[path.slice(root.length), run]];
    }),
  );
}
