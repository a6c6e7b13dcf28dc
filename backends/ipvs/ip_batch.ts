import { classifyFailure } from "../tools/mod.ts";

/**
 * The messages of commands that failed in a run of `ip -force -batch`, by their numbers from 0: ip prints a message before the
 * number of its command. A command whose effect is there already has not failed.
 */
export function failedCommands(stderr: string): ReadonlyMap<number, string> {
  const failed = new Map<number, string>();
  let message = "";
  for (const line of stderr.split("\n")) {
    const number = /^Command failed -:(\d+)/.exec(line)?.[1];
    if (number === undefined) message = line;
    else if (classifyFailure("ip", message) !== "done already") failed.set(Number(number) - 1, message);
  }
  return failed;
}
