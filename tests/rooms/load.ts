/**
 * Loads the test files of a room into one isolate. `deno test` starts an isolate for each file it is given, which loads
 * its modules again: for all test files, that takes more time than most of the tests. A single file still runs by itself:
 * `deno test -A tests/unit/core/planning/plan_test.ts`.
 */
import { readTree } from "../../build/imports.ts";
import { seeded } from "../fakes/random.ts";
import { catchUncaught } from "../fakes/uncaught.ts";

/** Registers the tests of these folders and files, which are relative to `tests`. */
export async function loadTests(...paths: readonly string[]): Promise<void> {
  const files = [...readTree(paths.map((path) => `tests/${path}`)).keys()].filter((path) => path.endsWith("_test.ts"));
  for (const file of files.sort()) await import(new URL(`../../${file}`, import.meta.url).href);
  catchUncaught();
  // The jitter of the product repeats, too.
  Deno.test.beforeEach(() => void (Math.random = seeded()));
}
