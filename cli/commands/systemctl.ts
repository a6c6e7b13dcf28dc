import { createProcessRunner, type ProcessRunnerOptions } from "../../backends/tools/mod.ts";
import { searchPath } from "../../platform/mod.ts";

/** Runs systemctl and returns its output. Throws with its standard error if it fails. */
export async function runSystemctl(
  args: readonly string[],
  options: Omit<ProcessRunnerOptions, "path">,
): Promise<string> {
  const runner = createProcessRunner({ ...options, path: searchPath() });
  const { exitCode, stdout, stderr } = await runner.run({ tool: "systemctl", args });
  if (exitCode === 0) return stdout;
  throw new Error(
    `systemctl ${args.join(" ")} failed with exit status ${exitCode}: ${stderr.trim() || "no error message"}`,
  );
}
