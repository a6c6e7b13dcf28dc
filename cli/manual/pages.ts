/** Help of the program and its commands, laid out by package commander, and the man page; loaded on first use. */
import { Command, Help, Option } from "commander";
import {
  type CommandSpec,
  exitStatusesOf,
  type Flag,
  FLAG_GROUPS,
  FLAGS,
  placeholderOf,
  RUN,
  SOURCE_FLAGS,
  usageLine,
} from "../../config/mod.ts";
import { VERSION } from "../../platform/mod.ts";

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
  const command = new Command(spec.name).description(spec.summary)
    .configureOutput({ getOutHelpWidth: () => HELP_WIDTH })
    .helpOption("-h, --help", "Show this help.")
    .option("--version [raw]", "Show the version.");
  const isReplaced = ({ name }: Flag) => spec.flags.some((flag) => flag.name === name);
  for (const flag of [...spec.flags, ...FLAGS.filter((flag) => !isReplaced(flag) && isShown(flag, spec))]) {
    const group = spec.flags.includes(flag)
      ? `Flags of ${spec.name}:`
      : `${FLAG_GROUPS.find(({ flags }) => flags.includes(flag))?.title ?? "Flags"}:`;
    command.addOption(new Option(usageOf(flag), flag.description).helpGroup(group));
  }
  const text = command.helpInformation().replace(/^Usage: .*/, `Usage: ${usageLine(spec)}`)
    .replace("Options:", `${argumentsOf(spec)}Options:`);
  const more = spec.name === RUN
    ? withoutEffect()
    : spec.withoutSource
    ? ""
    : `\nThe flags of sluice ${RUN} are also accepted; sluice ${RUN} --help lists them.\n` +
      (spec.installed === undefined ? "" : "Without them, the configuration of the installed service is used.\n");
  return text + more + statusesOf(spec) + examplesOf(spec);
}

/** Whether the help of a command describes this flag of `run`. */
function isShown(flag: Flag, spec: CommandSpec): boolean {
  if (spec.name === RUN && flag.effective) return true;
  if (Object.keys(spec.examples).some((line) => line.split(" ").includes(`--${flag.name}`))) return true;
  return !spec.withoutSource && SOURCE_FLAGS.includes(flag.name);
}

function withoutEffect(): string {
  const { title, flags } = FLAG_GROUPS.find(({ flags }) => flags.every(({ effective }) => !effective))!;
  const names = new Help().boxWrap(flags.map(({ name }) => `--${name}`).join(" "), HELP_WIDTH - 2);
  return `\n${title}:\n${names.replace(/^/gm, "  ")}\n`;
}

function argumentsOf({ arguments: words = [] }: CommandSpec): string {
  if (words.length === 0) return "";
  const width = Math.max(...words.map(({ name }) => name.length));
  const lines = words.map(({ name, description }) => `  ${name.padEnd(width)}  ${description}\n`);
  return `Arguments:\n${lines.join("")}\n`;
}

function statusesOf(spec: CommandSpec): string {
  const lines = Object.entries(exitStatusesOf(spec)).map(([status, meaning]) => `  ${status}  ${meaning}`);
  return ["\nExit status:", ...lines, ""].join("\n");
}

function examplesOf({ examples }: CommandSpec): string {
  const lines = Object.entries(examples).flatMap(([line, does]) => [`  # ${does}`, `  ${line}`]);
  return ["\nExamples:", ...lines, ""].join("\n");
}

function usageOf(flag: Flag): string {
  const long = flag.letter === undefined ? `--${flag.name}` : `-${flag.letter}, --${flag.name}`;
  return `${long} ${placeholderOf(flag)}`;
}

/**
 * Returns the man page (section 8) in the man macros.
 * @param files descriptions of files, by path
 * @param environment descriptions of environment variables, by name
 */
export function manPage(
  commands: readonly CommandSpec[],
  files: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string>>,
): string {
  return [
    `.TH SLUICE 8 "" "Sluice ${VERSION}" "System Administration"`,
    ".SH NAME",
    "sluice \\- Kubernetes service proxy",
    ".SH SYNOPSIS",
    ...commands.flatMap((command, i) => [...(i === 0 ? [] : [".br"]), `.B ${roff(usageLine(command))}`]),
    ".SH DESCRIPTION",
    roff(
      "Sluice replaces kube-proxy: it watches Services, EndpointSlices and its Node, and programs the node's kernel " +
        "(iptables, nftables or IPVS, both IP families) to balance connections over the endpoints. Without a command " +
        "it runs the proxy, with kube-proxy's flags and configuration file. Every command accepts the flags of run.",
    ),
    ".SH COMMANDS",
    ...commands.flatMap(commandPart),
    ".SH FLAGS",
    ...FLAG_GROUPS.flatMap(({ title, flags }) => [
      `.SS ${roff(title)}`,
      ...(flags.every(({ effective }) => !effective)
        ? [roff(flags.map(({ name }) => `--${name}`).join(", "))]
        : flags.flatMap(flagPart)),
    ]),
    ".SH EXIT STATUS",
    ...tagged("0", "success; check: nothing is red; diff: no difference"),
    ...tagged("1", "failure; check: something is red; diff: the kernel differs"),
    ...tagged("2", "usage or configuration error, nothing was done; diff: failure"),
    ".SH ENVIRONMENT",
    ...Object.entries(environment).flatMap(([name, what]) => tagged(name, what)),
    ".SH FILES",
    ...Object.entries(files).flatMap(([path, what]) => tagged(path, what)),
    ".SH SEE ALSO",
    ".BR nft (8),",
    ".BR iptables (8),",
    ".BR ipvsadm (8),",
    ".BR conntrack (8)",
    "",
  ].join("\n");
}

function commandPart(command: CommandSpec): string[] {
  const { name, summary, arguments: words = [], flags, examples } = command;
  return [
    `.SS ${roff(name)}`,
    roff(summary),
    ...words.flatMap(({ name, description }) => tagged(name, description)),
    ...flags.flatMap(flagPart),
    ".PP",
    "Exit status:",
    ...Object.entries(exitStatusesOf(command)).flatMap(([status, meaning]) => tagged(status, meaning)),
    ...Object.entries(examples).flatMap((
      [line, does],
    ) => [".PP", roff(`${capital(does)}:`), ".PP", ".RS 4", ".nf", roff(line), ".fi", ".RE"]),
  ];
}

function flagPart(flag: Flag): string[] {
  const letter = flag.letter === undefined ? "" : `-${flag.letter}, `;
  return tagged(`${letter}--${flag.name} ${placeholderOf(flag)}`, flag.description);
}

function tagged(tag: string, text: string): string[] {
  return [".TP", `.B ${roff(tag)}`, roff(text)];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Escapes text for roff: no requests, escapes or breakable hyphens. */
function roff(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll('"', "\\(dq").replace(/^(?=[.'])/gm, "\\&")
    .replace(
      /[^\0-\x7f]/gu,
      (character) => `\\[u${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}]`,
    );
}
