import { readArguments } from "./arguments.ts";
import type { CommandSpec } from "./command_spec.ts";
import { FLAGS } from "./flag_table.ts";

/** The command line of the installed service. */
export interface InstalledService {
  /** Path of its configuration file. */
  readonly configuration: string;
  /** Its other flags, in the form `--name=value`. */
  readonly words: readonly string[];
}

/** Flags of `run` that agree with any configuration. */
const AGREEING = ["v", "logging-format", "strict-config", "cleanup"];

/**
 * Returns the part of the installed service that applies to a command line; undefined if the command uses none, or a flag
 * selects another configuration.
 */
export function partOfInstalled(
  args: readonly string[],
  commands: readonly CommandSpec[],
): "configuration" | "socket" | undefined {
  const spec = commands.find(({ name }) => name === args[0]);
  if (spec?.installed === undefined) return undefined;
  const { given, help } = readArguments(args.slice(1), spec);
  const { part, unless = [] } = spec.installed;
  const isOfRun = (name: string) =>
    FLAGS.some((flag) => flag.name === name) && !spec.flags.some((flag) => flag.name === name);
  const differs = [...given.keys()].some((name) => unless.includes(name) || isOfRun(name) && !AGREEING.includes(name));
  return help || differs ? undefined : part;
}

/** Returns the command line with a part of the installed service's flags added. */
export function withInstalled(
  [command, ...rest]: readonly string[],
  part: "configuration" | "socket",
  { configuration, words }: InstalledService,
): readonly string[] {
  const added = part === "configuration"
    ? [`--config=${configuration}`, ...words]
    : words.filter((word) => word.startsWith("--control-socket="));
  return [command!, ...added, ...rest];
}
