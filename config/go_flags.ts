import type { Flag } from "./flags.ts";
import { parseScalar } from "./scalar.ts";

/** Whether a flag may stand alone and then means true. */
export function standsAlone(flag: Flag): boolean {
  return flag.field.kind === "boolean";
}

/**
 * Go's flag syntax in the one spelling that the command line's parser is given: `_` in a name reads as `-`, a boolean
 * that stands alone becomes `--name=true` (and never takes the argument after it), and `-v2`, `-v=2`, `-v 2` become
 * `--v=2`. What is none of the flags stays as it is; a flag at the end that lacks its value is an error.
 */
export function normalizeArguments(
  args: readonly string[],
  flags: readonly Flag[],
): { readonly normal: readonly string[]; readonly errors: readonly string[] } {
  const errors: string[] = [];
  const normal: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (arg === "--") return { normal: [...normal, ...args.slice(i)], errors };
    const short = /^-([a-z])(?:=?(.+))?$/s.exec(arg);
    const long = /^--([^=]+)(?:=(.*))?$/s.exec(arg);
    const name = long?.[1]?.replaceAll("_", "-");
    const flag = flags.find((flag) => short ? flag.letter === short[1] : flag.name === name);
    const attached = short ? short[2] : long?.[2];
    if (flag === undefined) {
      normal.push(arg);
    } else if (attached !== undefined) {
      normal.push(`--${flag.name}=${attached}`);
    } else if (standsAlone(flag)) {
      normal.push(`--${flag.name}=true`);
    } else if (i + 1 < args.length) {
      normal.push(`--${flag.name}=${args[++i]}`);
    } else {
      errors.push(`--${flag.name} needs a value`);
    }
  }
  return { normal, errors };
}

/**
 * The value of a flag from all the times it was given: the last one counts, but lists and switches add up, as in
 * Go's pflag.
 */
export function flagValue(
  flag: Flag,
  given: readonly string[],
): { readonly value: unknown } | { readonly must: string } {
  const field = flag.field;
  if (field.kind === "texts") {
    return { value: given.flatMap((list) => list === "" ? [] : list.split(",")) };
  }
  if (field.kind === "switches") return parseSwitches(given);
  for (const text of given) {
    const read = parseScalar(field, text);
    if ("must" in read) return read;
  }
  return parseScalar(field, given.at(-1)!);
}

function parseSwitches(given: readonly string[]): { readonly value: unknown } | { readonly must: string } {
  const switches: Record<string, boolean> = {};
  for (const pair of given.flatMap((list) => list.split(",")).filter((text) => text.trim() !== "")) {
    const [, name, state] = /^\s*([^=\s]+)\s*=\s*(\S+)\s*$/.exec(pair) ?? [];
    const read = parseScalar({ kind: "boolean", initial: false }, state ?? "");
    if (name === undefined || "must" in read) return { must: "name=true or name=false, with commas between" };
    switches[name] = read.value as boolean;
  }
  return { value: switches };
}
