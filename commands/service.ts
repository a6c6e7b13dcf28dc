import { createProcessRunner, type ProcessRunnerOptions } from "../backends/process_runner.ts";

/** Asks the service manager for something. Throws with what it says where it does not do it. */
export async function runSystemctl(args: readonly string[], options: ProcessRunnerOptions): Promise<void> {
  const { exitCode, stderr } = await createProcessRunner(options).run({ tool: "systemctl", args });
  if (exitCode === 0) return;
  throw new Error(
    `systemctl ${args.join(" ")} failed with exit status ${exitCode}: ${stderr.trim() || "it said nothing"}`,
  );
}
