import { errorText, type Logger } from "../platform/log.ts";
import { failureText, type Runner } from "./runner.ts";

/** A setting of the kernel and the value that it is to have: `net.ipv4.ip_forward`, 1. */
export interface Sysctl {
  readonly name: string;
  readonly value: number;
}

/**
 * Gives settings of the kernel their values, where they have others. What cannot be written is logged and stays as it
 * is: it must not keep services from being served.
 */
export async function writeSysctls(runner: Runner, logger: Logger, settings: readonly Sysctl[]): Promise<void> {
  for (const { name, value } of settings) {
    try {
      const current = await sysctl(runner, ["-n", name]);
      if (current.trim() === String(value)) continue;
      await sysctl(runner, ["-w", `${name}=${value}`]);
      logger.info("set a setting of the kernel", { setting: name, value, before: current.trim() });
    } catch (error) {
      logger.warn("a setting of the kernel could not be set, and stays as it is", {
        setting: name,
        value,
        error: errorText(error),
      });
    }
  }
}

async function sysctl(runner: Runner, args: readonly string[]): Promise<string> {
  const result = await runner.run({ tool: "sysctl", args });
  if (result.exitCode !== 0) throw new Error(failureText("sysctl", result));
  return result.stdout;
}
