/** The help of the program and its commands; loaded when it is asked for, and the package that lays it out with it. */
import { Command, Option } from "commander";
import {
  type CommandSpec,
  type Flag,
  FLAG_GROUPS,
  FLAGS,
  placeholderOf,
  RUN,
  SOURCE_FLAGS,
  usageLine,
} from "../../config/mod.ts";
import { programHelp } from "./program_help.ts";

/** Columns of the help: descriptions beside the longest flag are to be more than a word wide. */
const HELP_WIDTH = 100;

/** The help of a command, or of the program with all its commands where `spec` is undefined. */
export function helpText(spec: CommandSpec | undefined, commands: readonly CommandSpec[]): string {
  return spec === undefined ? programHelp(commands) : commandHelp(spec);
}

function commandHelp(spec: CommandSpec): string {
  const command = new Command(spec.name).description(spec.summary).configureOutput({
    getOutHelpWidth: () => HELP_WIDTH,
  })
    .helpOption("-h, --help", "Show this help.");
  command.option("--version [raw]", "Show the version.");
  for (const flag of [...spec.flags, ...FLAGS]) {
    const option = new Option(usageOf(flag), flag.description);
    option.helpGroup(spec.flags.includes(flag) ? `Flags of ${spec.name}:` : `${titleOf(flag)}:`);
    command.addOption(isShown(flag, spec) ? option : option.hideHelp());
  }
  command.argument("[arguments...]");
  const text = command.helpInformation().replace(/^Usage: .*/, `Usage: ${usageLine(spec)}`)
    .replace("Options:", `${argumentsOf(spec)}Options:`);
  const more = spec.name === RUN
    ? withoutEffect()
    : `\nIt takes every flag of sluice ${RUN}, too: sluice ${RUN} --help lists them.\n`;
  return text + more + examplesOf(spec);
}
/** The flags of a command that its help describes. */
function isShown(flag: Flag, spec: CommandSpec): boolean {
  return spec.name === RUN && flag.effective || spec.flags.includes(flag) || SOURCE_FLAGS.includes(flag.name);
}

function titleOf(flag: Flag): string {
  return FLAG_GROUPS.find(({ flags }) => flags.includes(flag))?.title ?? "Flags";
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

function usageOf(flag: Flag): string {
  const long = flag.letter === undefined ? `--${flag.name}` : `-${flag.letter}, --${flag.name}`;
  return `${long} ${placeholderOf(flag)}`;
}
