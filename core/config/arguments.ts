import { Command, CommanderError, Option } from "commander";
import { type Flag, flagNamed, FLAGS } from "./flags.ts";
import { flagValue, normalizeArguments, standsAlone } from "./go_flags.ts";
import { nearest } from "./nearest.ts";

/** The flags that were given, by name, with their values read. */
export type GivenFlags = ReadonlyMap<string, unknown>;

/** What the arguments say, before any meaning is given to it. */
export interface Arguments {
  readonly given: GivenFlags;
  /** The help text, where it was asked for. */
  readonly help: string | undefined;
  readonly version: boolean;
  readonly errors: readonly string[];
}

/** Reads the arguments after the program's name, in Go's syntax. Every unknown flag and unreadable value is an error. */
export function readArguments(args: readonly string[]): Arguments {
  const collected = new Map<Flag, string[]>();
  const { normal, errors: unfinished } = normalizeArguments(args);
  const errors = [...unfinished];
  const run = new Command("run").description("Run the proxy (what happens without a command).")
    .allowUnknownOption().helpOption("-h, --help", "Show this help.");
  run.option("--version [raw]", "Show the version.");
  for (const flag of FLAGS) {
    const collect = (text: string) => collected.set(flag, [...collected.get(flag) ?? [], text]);
    run.addOption(new Option(usageOf(flag), flag.description).argParser(collect));
  }
  run.argument("[arguments...]");
  const program = new Command("sluice").helpCommand(false).helpOption(false).addCommand(run, { isDefault: true });
  for (const command of [program, run]) {
    command.exitOverride().configureOutput({ writeOut: () => {}, writeErr: () => {} });
  }
  let help: string | undefined;
  try {
    program.parse(normal, { from: "user" });
    for (const arg of run.args) errors.push(explainStray(arg));
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.helpDisplayed") help = run.helpInformation().replace(/^Usage: .*/, USAGE);
    else errors.push(error.message.replace(/^error: /, ""));
  }
  const given = new Map<string, unknown>();
  for (const [flag, texts] of collected) {
    const read = flagValue(flag, texts);
    if ("must" in read) errors.push(`--${flag.name} is ${JSON.stringify(texts.at(-1))}: must be ${read.must}`);
    else given.set(flag.name, read.value);
  }
  const version: unknown = run.getOptionValue("version");
  return { given, help, version: version !== undefined && version !== "false", errors };
}

const USAGE = "Usage: sluice [run] [flags]";

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

function usageOf(flag: Flag): string {
  const long = flag.name === "v" ? "-v, --v" : `--${flag.name}`;
  return standsAlone(flag) ? `${long} [true|false]` : `${long} <${PLACEHOLDERS[flag.field.kind]}>`;
}

function explainStray(arg: string): string {
  if (!arg.startsWith("-")) return `unexpected argument ${JSON.stringify(arg)}: sluice takes flags only`;
  const name = /^-+([^=]*)/.exec(arg)![1]!.replaceAll("_", "-");
  const meant = flagNamed(name)?.name ?? nearest(name, FLAGS.map((flag) => flag.name));
  const hint = meant === undefined ? "see --help for those there are" : `did you mean --${meant}?`;
  return `unknown flag ${arg.replace(/=.*/s, "")}; ${hint}`;
}
