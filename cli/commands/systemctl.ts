import { createProcessRunner, type ProcessRunnerOptions, runOrThrow } from "../../backends/tools/mod.ts";
import { searchPath } from "../../platform/mod.ts";

/** Runs systemctl and returns its output. Throws with its standard error if it fails. */
export async function runSystemctl(
  args: readonly string[],
  options: Omit<ProcessRunnerOptions, "path">,
): Promise<string> {
  const runner = createProcessRunner({ ...options, path: searchPath() });
  return (await runOrThrow(runner, { tool: "systemctl", args }, `systemctl ${args.join(" ")}`)).stdout;
}
