/** Help of the program and its commands, laid out by package commander; both are loaded on first use. */
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

/** Columns of the help; leaves room for descriptions next to the longest flag. */
const HELP_WIDTH = 100;

/** Returns the help of a command, or of the whole program if `spec` is undefined. */
export function helpText(spec: CommandSpec | undefined, commands: readonly CommandSpec[]): string {
  return spec === undefined ? programHelp(commands) : commandHelp(spec);
}

function programHelp(commands: readonly CommandSpec[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  return `Sluice is a Kubernetes service proxy: it programs this node's kernel to balance connections to services over their endpoints.

Usage: sluice [command] [arguments] [flags]

Without a command, sluice runs the proxy, with kube-proxy's flags and configuration file.

Commands:
${commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join("\n")}

sluice COMMAND --help shows a command's flags and examples; sluice ${RUN} --help lists kube-proxy's flags.
`;
}

function commandHelp(spec: CommandSpec): string {
  const command = new Command(spec.name).description(spec.summary).configureOutput({
    getOutHelpWidth: () => HELP_WIDTH,
  })
    .helpOption("-h, --help", "Show this help.");
  command.option("--version [raw]", "Show the version.");
  const isReplaced = ({ name }: Flag) => spec.flags.some((flag) => flag.name === name);
  for (const flag of [...spec.flags, ...FLAGS.filter((flag) => !isReplaced(flag))]) {
    const option = new Option(usageOf(flag), flag.description);
    option.helpGroup(spec.flags.includes(flag) ? `Flags of ${spec.name}:` : `${titleOf(flag)}:`);
    command.addOption(isShown(flag, spec) ? option : option.hideHelp());
  }
  command.argument("[arguments...]");
  const text = command.helpInformation().replace(/^Usage: .*/, `Usage: ${usageLine(spec)}`)
    .replace("Options:", `${argumentsOf(spec)}Options:`);
  const more = spec.name === RUN
    ? withoutEffect()
    : spec.withoutSource
    ? ""
    : `\nThe flags of sluice ${RUN} are also accepted; sluice ${RUN} --help lists them.\n` +
      (spec.installed === undefined ? "" : "Without them, the configuration of the installed service is used.\n");
  return text + more + examplesOf(spec);
}

/** Whether the help of a command describes this flag. */
function isShown(flag: Flag, spec: CommandSpec): boolean {
  if (spec.name === RUN && flag.effective || spec.flags.includes(flag)) return true;
  if (spec.examples.some(({ line }) => line.split(" ").includes(`--${flag.name}`))) return true;
  return !spec.withoutSource && SOURCE_FLAGS.includes(flag.name);
}

function titleOf(flag: Flag): string {
  return FLAG_GROUPS.find(({ flags }) => flags.includes(flag))?.title ?? "Flags";
}

/** Lists the flags without effect in one paragraph. */
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
