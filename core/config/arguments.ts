import { Command, CommanderError, Option } from "commander";
import { type CommandSpec, RUN } from "./command_spec.ts";
import { FLAG_GROUPS, FLAGS, SOURCE_FLAGS } from "./flag_table.ts";
import type { Flag } from "./flags.ts";
import { flagValue, normalizeArguments, standsAlone } from "./go_flags.ts";
import { nearest, suggestion } from "./nearest.ts";

/** The flags that were given, by name, with their values read. */
export type GivenFlags = ReadonlyMap<string, unknown>;

/** What the arguments say, before any meaning is given to it. */
export interface Arguments {
  readonly given: GivenFlags;
  /** What was given beside flags, in order. */
  readonly rest: readonly string[];
  /** The help text, where it was asked for. */
  readonly help: string | undefined;
  readonly version: boolean;
  readonly errors: readonly string[];
}

/** Columns of the help: descriptions beside the longest flag are to be more than a word wide. */
const HELP_WIDTH = 100;

/**
 * Reads what follows a command's name, in Go's flag syntax. Every unknown flag, unreadable value and argument too many or
 * too few is an error.
 */
export function readArguments(args: readonly string[], spec: CommandSpec): Arguments {
  const flags = [...spec.flags, ...FLAGS];
  const collected = new Map<Flag, string[]>();
  const { normal, errors: unfinished } = normalizeArguments(args, flags);
  const errors = [...unfinished];
  const command = new Command(spec.name).description(spec.summary).allowUnknownOption().exitOverride()
    .configureOutput({ writeOut: () => {}, writeErr: () => {}, getOutHelpWidth: () => HELP_WIDTH }).helpOption(
      "-h, --help",
      "Show this help.",
    );
  command.option("--version [raw]", "Show the version.");
  for (const flag of flags) {
    const collect = (text: string) => collected.set(flag, [...collected.get(flag) ?? [], text]);
    const option = new Option(usageOf(flag), flag.description).argParser(collect);
    option.helpGroup(spec.flags.includes(flag) ? `Flags of ${spec.name}:` : `${titleOf(flag)}:`);
    command.addOption(isShown(flag, spec) ? option : option.hideHelp());
  }
  command.argument("[arguments...]");
  let help: string | undefined;
  let rest: readonly string[] = [];
  try {
    command.parse(normal, { from: "user" });
    rest = command.args.filter((arg) => !arg.startsWith("-"));
    for (const arg of command.args.filter((arg) => arg.startsWith("-"))) errors.push(explainUnknown(arg, flags));
    errors.push(...miscounted(rest, spec), ...misworded(rest, spec));
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") help = helpOf(command, spec);
    else errors.push(error.message.replace(/^error: /, ""));
  }
  const given = new Map<string, unknown>();
  for (const [flag, texts] of collected) {
    const read = flagValue(flag, texts);
    if ("must" in read) errors.push(`--${flag.name} is ${JSON.stringify(texts.at(-1))}: must be ${read.must}`);
    else if (spec.flags.includes(flag) && isNone(flag.values, texts.at(-1)!)) {
      errors.push(`--${flag.name} is ${noneOf(flag.values!, texts.at(-1)!)}`);
    } else given.set(flag.name, read.value);
  }
  const version: unknown = command.getOptionValue("version");
  return { given, rest, help, version: version !== undefined && version !== "false", errors };
}

/** The flags of a command that its help describes. */
function isShown(flag: Flag, spec: CommandSpec): boolean {
  return spec.name === RUN && flag.effective || spec.flags.includes(flag) || SOURCE_FLAGS.includes(flag.name);
}

function titleOf(flag: Flag): string {
  return FLAG_GROUPS.find(({ flags }) => flags.includes(flag))?.title ?? "Flags";
}

/** `sluice explain ADDRESS:PORT [flags]`. */
export function usageLine(spec: CommandSpec): string {
  const name = spec.name === RUN ? `[${RUN}]` : spec.name;
  const words = spec.arguments.map(({ name, required }) => required ? name : `[${name}]`);
  return ["sluice", name, ...words, "[flags]"].join(" ");
}

function helpOf(command: Command, spec: CommandSpec): string {
  const text = command.helpInformation().replace(/^Usage: .*/, `Usage: ${usageLine(spec)}`)
    .replace("Options:", `${argumentsOf(spec)}Options:`);
  const more = spec.name === RUN
    ? withoutEffect()
    : `\nIt takes every flag of sluice ${RUN}, too: sluice ${RUN} --help lists them.\n`;
  return text + more + examplesOf(spec);
}

/** The flags that do nothing here, in one paragraph: nobody looks for one of them. */
function withoutEffect(): string {
  const { title, flags } = FLAG_GROUPS.find(({ flags }) => flags.every(({ effective }) => !effective))!;
  const lines: string[] = [""];
  for (const { name } of flags) {
    const longer = `${lines.at(-1)} --${name}`;
    if (longer.length < HELP_WIDTH) lines[lines.length - 1] = longer;
    else lines.push(` --${name}`);
  }
  return `\n${title}:\n${lines.map((line) => ` ${line}\n`).join("")}`;
}

function argumentsOf({ arguments: words }: CommandSpec): string {
  if (words.length === 0) return "";
  const width = Math.max(...words.map(({ name }) => name.length));
  const lines = words.map(({ name, description }) => `  ${name.padEnd(width)}  ${description}\n`);
  return `Arguments:\n${lines.join("")}\n`;
}

function examplesOf({ examples }: CommandSpec): string {
  if (examples.length === 0) return "";
  return ["\nExamples:", ...examples.flatMap(({ line, does }) => [`  # ${does}`, `  ${line}`]), ""].join("\n");
}

const PLACEHOLDERS: Readonly<Record<Flag["field"]["kind"], string>> = {
  text: "text",
  boolean: "true|false",
  integer: "n",
  number: "n",
  duration: "duration",
  quantity: "quantity",
  texts: "a,b,…",
  switches: "name=true,…",
};

/** Characters of the words that a flag takes that its placeholder may list. */
const MOST_WORDS = 24;

function usageOf(flag: Flag): string {
  const long = flag.letter === undefined ? `--${flag.name}` : `-${flag.letter}, --${flag.name}`;
  return `${long} ${placeholderOf(flag)}`;
}

/** What stands for a flag's value in a list of flags: `<a|b>`, `<duration>`, `[true|false]` where it may stand alone. */
export function placeholderOf(flag: Flag): string {
  if (standsAlone(flag)) return "[true|false]";
  const words = flag.values?.join("|") ?? "";
  return `<${words !== "" && words.length <= MOST_WORDS ? words : PLACEHOLDERS[flag.field.kind]}>`;
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
