import type { Flavour } from "./tables.ts";

/** The version that is imitated. */
export const VERSION = "v1.8.9";

/** What stands before most complaints of a program. */
export function banner(program: string, flavour: Flavour): string {
  return `${program} ${VERSION} (${flavour}): `;
}

/** The line that follows complaints about arguments. */
export function helpHint(program: string): string {
  return `Try \`${program} -h' or '${program} --help' for more information.\n`;
}
