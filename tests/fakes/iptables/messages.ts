import type { Flavour } from "./tables.ts";

/** The version of the faked tools. */
export const VERSION = "v1.8.9";

/** The prefix of most error messages. */
export function banner(program: string, flavour: Flavour): string {
  return `${program} ${VERSION} (${flavour}): `;
}

/** The line after error messages about arguments. */
export function helpHint(program: string): string {
  return `Try \`${program} -h' or '${program} --help' for more information.\n`;
}
