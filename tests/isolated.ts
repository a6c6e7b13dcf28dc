/** Runs test programs that change the network, as root, isolated from the machine. */
import { fetchPackages, isIsolated, isolate } from "../demo/isolate.ts";
import { missingPrerequisite } from "../demo/prerequisites.ts";

/**
 * Starts the program `self` (its `import.meta.url`) again, isolated, with the same arguments, and runs `inside` there. Resolves
 * with the exit status; 1 if the machine lacks something, which is printed.
 * @param programs further modules that it starts, relative to the project's folder
 */
export async function runIsolated(
  self: string,
  inside: (args: readonly string[]) => Promise<number>,
  programs: readonly string[] = [],
): Promise<number> {
  if (isIsolated()) return await inside(Deno.args);
  const missing = await missingPrerequisite(console.log);
  if (missing !== undefined) {
    console.error(missing);
    return 1;
  }
  const root = new URL("../", import.meta.url).pathname, path = new URL(self).pathname;
  await fetchPackages([...programs.map((program) => root + program), path]);
  return await isolate([
    ...[Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", "--allow-all"],
    ...[path, ...Deno.args],
  ]);
}
