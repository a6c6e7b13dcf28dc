import type { CommandSpec } from "./command_spec.ts";
import { FLAGS } from "./flag_table.ts";
import type { Flag } from "./flags.ts";
import { flagValue, normalizeArguments } from "./go_flags.ts";
import { nearest, suggestion } from "./nearest.ts";
import { usageLine } from "./usage.ts";

/** The flags that were given, by name, with their values read. */
export type GivenFlags = ReadonlyMap<string, unknown>;

/** What the arguments say, before any meaning is given to it. */
export interface Arguments {
  readonly given: GivenFlags;
  /** What was given beside flags, in order. */
  readonly rest: readonly string[];
  /** Whether the help was asked for; the other arguments are not read then. */
  readonly help: boolean;
  readonly version: boolean;
  readonly errors: readonly string[];
}

/**
 * Reads what follows a command's name, in Go's flag syntax. Every unknown flag, unreadable value and argument too many or
 * too few is an error.
 */
export function readArguments(args: readonly string[], spec: CommandSpec): Arguments {
  const flags = [...spec.flags, ...FLAGS];
  const collected = new Map<Flag, string[]>();
  const { normal, errors: unfinished } = normalizeArguments(args, flags);
  const errors = [...unfinished];
  const end = normal.indexOf("--");
  const options = end < 0 ? normal : normal.slice(0, end);
  const rest: string[] = [];
  let version: string | undefined;
  for (const arg of options) {
    const [, name, value] = /^--([^=]+)=(.*)$/s.exec(arg) ?? [];
    const flag = flags.find((flag) => flag.name === name);
    if (arg === "-h" || arg === "--help") return { given: new Map(), rest, help: true, version: false, errors };
    else if (arg === "--version" || name === "version") version = value ?? "true";
    else if (flag !== undefined) collected.set(flag, [...collected.get(flag) ?? [], value!]);
    else if (arg.startsWith("-")) errors.push(explainUnknown(arg, flags));
    else rest.push(arg);
  }
  if (end >= 0) rest.push(...normal.slice(end + 1));
  errors.push(...miscounted(rest, spec), ...misworded(rest, spec));
  const given = new Map<string, unknown>();
  for (const [flag, texts] of collected) {
    const read = flagValue(flag, texts);
    if ("must" in read) errors.push(`--${flag.name} is ${JSON.stringify(texts.at(-1))}: must be ${read.must}`);
    else if (spec.flags.includes(flag) && isNone(flag.values, texts.at(-1)!)) {
      errors.push(`--${flag.name} is ${noneOf(flag.values!, texts.at(-1)!)}`);
    } else given.set(flag.name, read.value);
  }
  return { given, rest, help: false, version: version !== undefined && version !== "false", errors };
}

function explainUnknown(arg: string, flags: readonly Flag[]): string {
  const name = /^-+([^=]*)/.exec(arg)![1]!.replaceAll("_", "-");
  const names = flags.map((flag) => flag.name);
  const meant = names.includes(name) ? name : nearest(name, names);
  const hint = meant === undefined ? "see --help for those there are" : `did you mean --${meant}?`;
  return `unknown flag ${arg.replace(/=.*/s, "")}; ${hint}`;
}

function miscounted(rest: readonly string[], spec: CommandSpec): string[] {
  const tooMany = rest.slice(spec.arguments.length).map((arg) =>
    `unexpected argument ${JSON.stringify(arg)}: ${usageLine(spec)}`
  );
  const missing = spec.arguments.slice(rest.length).filter(({ required }) => required).map(({ name, description }) =>
    `${spec.name} needs ${name}: ${description}`
  );
  return [...tooMany, ...missing];
}

function misworded(rest: readonly string[], spec: CommandSpec): string[] {
  return spec.arguments.flatMap(({ name, values }, i) =>
    rest[i] === undefined || !isNone(values, rest[i]) ? [] : [`${name} is ${noneOf(values!, rest[i])}`]
  );
}

function isNone(words: readonly string[] | undefined, given: string): boolean {
  return words !== undefined && !words.includes(given);
}

function noneOf(words: readonly string[], given: string): string {
  return `${JSON.stringify(given)}: must be ${words.join(" or ")}${suggestion(given, words)}`;
}
