import { errorText, type Logger } from "../platform/log.ts";
import { failureText, type Runner, type ToolResult } from "./runner.ts";

/** A setting of the kernel and the value that it is to have: `net.ipv4.ip_forward`, 1. */
export interface Sysctl {
  readonly name: string;
  readonly value: number;
}

/**
 * Gives settings of the kernel their values, where they have others: one call reads all of them, one writes those that
 * differ. What cannot be written is logged and stays as it is: it must not keep services from being served.
 */
export async function writeSysctls(runner: Runner, logger: Logger, settings: readonly Sysctl[]): Promise<void> {
  if (settings.length === 0) return;
  const failed = ({ name, value }: Sysctl, error: string) =>
    logger.warn("a setting of the kernel could not be set, and stays as it is", { setting: name, value, error });
  try {
    const read = await runner.run({ tool: "sysctl", args: settings.map(({ name }) => name) });
    const before = printedValues(read);
    const wanted = settings.filter((setting) => {
      const current = before.get(setting.name);
      if (current === undefined) failed(setting, complaintAbout(setting.name, read));
      return current !== undefined && current !== String(setting.value);
    });
    if (wanted.length === 0) return;
    const written = await runner.run({
      tool: "sysctl",
      args: ["-w", ...wanted.map(({ name, value }) => `${name}=${value}`)],
    });
    const after = printedValues(written);
    for (const setting of wanted) {
      const { name, value } = setting;
      // The exit status says nothing: it is 0 for values that the kernel refuses (procps 4).
      if (after.get(name) !== String(value)) failed(setting, complaintAbout(name, written));
      else logger.info("set a setting of the kernel", { setting: name, value, before: before.get(name) });
    }
  } catch (error) {
    for (const setting of settings) failed(setting, errorText(error));
  }
}

/** How long a setting that is only nice to know is waited for. */
const READ_TIMEOUT_MS = 1000;

/**
 * A setting of the kernel, or undefined where it has none of that name, or it cannot be read in a second, which is
 * logged: what depends on it must do without.
 */
export async function readSysctl(runner: Runner, logger: Logger, name: string): Promise<string | undefined> {
  try {
    return printedValues(await runner.run({ tool: "sysctl", args: [name], timeoutMs: READ_TIMEOUT_MS })).get(name);
  } catch (error) {
    logger.warn("kernel setting could not be read", { setting: name, error: errorText(error) });
    return undefined;
  }
}

/** What sysctl printed of the settings that it could read or write: `NAME = VALUE`. */
function printedValues({ stdout }: ToolResult): Map<string, string> {
  const values = new Map<string, string>();
  for (const line of stdout.split("\n")) {
    const [name, value] = line.split("=", 2);
    if (value !== undefined) values.set(name!.trim(), value.trim());
  }
  return values;
}

/** What sysctl said about a setting, which it calls by name or by path. */
function complaintAbout(name: string, result: ToolResult): string {
  const path = name.replaceAll(".", "/");
  const mentions = result.stderr.split("\n").filter((line) => line.includes(name) || line.includes(path));
  return mentions.length > 0 ? mentions.join("; ") : failureText("sysctl", result);
}
