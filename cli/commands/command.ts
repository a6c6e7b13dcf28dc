/** Contract of a command, and helpers that commands share. */
import { MODE_DESCRIPTIONS } from "../../backends/mod.ts";
import type { Runner } from "../../backends/tools/mod.ts";
import type { Asker, ControlAnswers } from "../../answers/control/mod.ts";
import type { Answers } from "../../answers/mod.ts";
import {
  boolean,
  choice,
  type CommandLine,
  type CommandLineContext,
  type CommandSpec,
  type Configuration,
  duration,
  type Flag,
  flagValue,
  type GivenFlags,
  NO_ANSWER,
  option,
  readConfigurationText,
} from "../../config/mod.ts";
import type { ProxyOptions } from "../../node/mod.ts";
import {
  createLogger,
  FAMILIES,
  type Family,
  levelOfVerbosity,
  type LimitedLogger,
  limitRepeats,
  networkNamespace,
  type RunProgram,
  searchPath,
  silentLogger,
  systemClock,
  writeToStderr,
} from "../../platform/mod.ts";

/** Input of a command. */
export interface Invocation extends Pick<ProxyOptions, "logger" | "logging" | "clock"> {
  /** All commands, in the order of the help. */
  readonly commands: readonly CommandSpec[];
  readonly configuration: Configuration;
  /** Positional arguments, as many as the command's spec allows. */
  readonly arguments: readonly string[];
  /** Values of all flags given, including the command's own, by name. */
  readonly flags: GivenFlags;
  /** Messages about parts of the configuration that are ignored or deprecated; already printed. */
  readonly warnings: readonly string[];
  /** Whether the configuration of the installed service is used, because no flag selects another one. */
  readonly isInstalled: boolean;
  /** Reads the command line and the configuration file again. */
  readonly reread: () => Promise<CommandLine>;
  /** Aborted by SIGTERM or SIGINT. */
  readonly signal: AbortSignal;
  /** Runs the credential plugin of the kubeconfig's user, if that is a program. */
  readonly runProgram?: RunProgram;
  /** Aborted when something is lost that the command needs and cannot restart. */
  readonly lost: AbortController;
  /** Writes to standard output synchronously. */
  print(text: string): void;
}

/** One command, `sluice NAME`. Loads its dependencies when it starts, so that they cost the other commands nothing. */
export interface Command extends CommandSpec {
  /** Whether it runs tools, or workers that do. Other commands drop the permission to start programs before they start. */
  readonly startsPrograms?: boolean;
  /** Whether it runs until a signal and logs why it stops; other commands only print errors. */
  readonly lasts?: true;
  /** Whether it prints until it is stopped: then it also stops when nobody reads its output any more. */
  readonly streams?: true;
  /** Resolves with the exit status. An error means status 1. */
  start(invocation: Invocation): Promise<number>;
}

/** The parts of this machine that a command line refers to. */
export function contextOf(commands: readonly CommandSpec[]): CommandLineContext {
  return {
    readFile: readConfigurationText,
    hostname: () => Deno.hostname(),
    kernelRelease: () => Deno.osRelease(),
    modes: MODE_DESCRIPTIONS,
    commands,
  };
}

/** The flag for the time that a running proxy has for an answer. */
export const TIMEOUT_FLAG = option(
  "timeout",
  duration(),
  "How long to wait for an answer of the proxy; 5s by default.",
);

/** The exit status of commands that ask the running proxy. */
export const PROXY_STATUS = { [NO_ANSWER]: "no proxy runs, or it does not answer in time" } as const;

/** Creates a runner of the kernel's tools and of the service manager. */
export async function toolRunner({ clock, signal }: Pick<Invocation, "clock"> & Partial<Invocation>): Promise<Runner> {
  const { createProcessRunner } = await import("../../backends/tools/mod.ts");
  return createProcessRunner({ clock, signal, path: searchPath() });
}

/** Who asks the running proxy, for `connectToProxy`: that of this network namespace, unless a flag names its socket. */
export function askerOf({ clock, signal, flags }: Invocation): Asker {
  return {
    clock,
    signal,
    timeoutMs: flagValue(flags, TIMEOUT_FLAG),
    networkNamespace: flags.has("control-socket") ? undefined : networkNamespace(),
  };
}

/** The control socket of the running proxy, which this command needs. */
export function socketFor(command: string, { configuration: { controlSocket } }: Invocation): string {
  if (controlSocket !== undefined) return controlSocket;
  throw new UsageError(`${command} needs a running proxy: set --control-socket to its socket`);
}

/** Connects to the running proxy, which this command needs. */
export async function proxyFor(command: string, invocation: Invocation): Promise<ControlAnswers> {
  const path = socketFor(command, invocation);
  const { connectToProxy } = await import("../../answers/control/mod.ts");
  return await connectToProxy(path, askerOf(invocation));
}

/** Flag that selects one IP family. */
export const FAMILY_FLAG = choice("family", FAMILIES, "IPv4 or IPv6; both by default.");

/** Returns the families selected with FAMILY_FLAG. */
export function familiesOf({ flags }: Invocation): readonly Family[] {
  const selected = flags.get(FAMILY_FLAG.name);
  return FAMILIES.filter((family) => selected === undefined || selected === family);
}

/** The command line is invalid. Like other errors with this exit status, it is printed without the command's name. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly exitStatus = 2;
}

/** Creates the flags `-o FORMAT` and `--json`, which is short for `-o json`. The first format is the default. */
export function outputFlags(formats: readonly string[]): readonly Flag[] {
  return [choice("output", formats, "Output format.", "o"), option("json", boolean(), "Short for -o json.")];
}

/** The flags of commands that print text or JSON. */
export const TEXT_OR_JSON = outputFlags(["text", "json"]);

/** Whether the output is JSON. */
export function isJson({ flags }: Invocation): boolean {
  return flags.get("json") === true || flags.get("output") === "json";
}

/** Prints data as JSON or as text, as the flags select. */
export function printAs(invocation: Invocation, data: unknown, text: () => string): void {
  invocation.print(isJson(invocation) ? jsonText(data) : text());
}

/** Formats data as JSON, indented or on one line. Control characters of tenants, which a terminal would obey, are escaped. */
export function jsonText(data: unknown, indent = 2): string {
  const escaped = (found: string) =>
    found.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  return `${JSON.stringify(data, null, indent).replace(/(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/gu, escaped)}\n`;
}

/** Ends each line. */
export function linesText(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

/** The name under which kubectl finds a plugin on the PATH and starts it (`kubectl sluice`). */
const PLUGIN = "kubectl-sluice";

/** The names under which this program may have been started with these arguments: of its file, and as called. */
export function programNames(args: readonly string[]): readonly string[] {
  // Node's `process` knows the name of a symbolic link. It loads a hundred modules, so not for a proxy or server that starts.
  const [first = ""] = args;
  if (first === "run" || first === "serve" || /^-(?!h$|-help$)/.test(first)) return [Deno.execPath()];
  const { process } = globalThis as { readonly process?: { readonly argv0?: string } };
  return [Deno.execPath(), process?.argv0 ?? ""];
}

/** Sluice's arguments when it was started under one of these names; as a kubectl plugin, it runs `sluice cluster`. */
export function argumentsUnder(names: readonly string[], args: readonly string[]): readonly string[] {
  const isPlugin = names.some((name) => name.slice(name.lastIndexOf("/") + 1) === PLUGIN);
  if (!isPlugin || args[0] === "version") return args;
  return args.length === 0 || args[0] === "help" ? ["help", "cluster"] : ["cluster", ...args];
}

/** Creates the configured logger of this process; `logging` configures the workers' loggers in the same way. */
export function createProcessLogger(
  { verbosity, loggingFormat }: Configuration,
): { readonly logger: LimitedLogger; readonly logging: ProxyOptions["logging"] } {
  const logging = {
    level: levelOfVerbosity(verbosity),
    format: loggingFormat ?? (Deno.stderr.isTerminal() ? "text" : "json"),
  } as const;
  const logger = limitRepeats(createLogger({ ...logging, clock: systemClock, write: writeToStderr }), systemClock);
  return { logger, logging };
}

/**
 * Returns the answers of the running proxy through its control socket. If --source is given or no proxy runs, this process
 * answers from the configured source. Prints to standard error which one it is.
 */
export async function answersOf(invocation: Invocation): Promise<Answers | ControlAnswers> {
  const { configuration: { controlSocket: path }, flags, isInstalled } = invocation;
  if (path === undefined || flags.has("source") && !isInstalled) return await answersOfSource(invocation);
  const { connectToProxy, NoProxyError } = await import("../../answers/control/mod.ts");
  try {
    const answers = await connectToProxy(path, askerOf(invocation));
    writeToStderr(`sluice: answered by the proxy at ${path}\n`);
    return answers;
  } catch (error) {
    if (!(error instanceof NoProxyError)) throw error;
    writeToStderr(`sluice: ${error.message}; reading the source instead\n`);
    return await answersOfSource(invocation);
  }
}

/** Answers from the source. Its log is for a proxy: a person gets one line for each mistake in an object, and the log with `--v=4`. */
async function answersOfSource(invocation: Invocation): Promise<Answers> {
  const { clock, configuration: { verbosity }, logger } = invocation;
  const { answerOffline } = await import("../../answers/mod.ts");
  const { createProblemBoard, problemKind } = await import("../../core/problems/mod.ts");
  const problems = createProblemBoard(clock, silentLogger, ({ type, problem: { code, subject, detail } }) => {
    if (type === "raised") writeToStderr(`sluice: ${problemKind(code).title}: ${subject}: ${detail}\n`);
  });
  return await answerOffline({
    ...invocation,
    logger: verbosity >= 4 ? logger : silentLogger,
    onProblems: problems.report,
    async rules(family, state, key) {
      const { dryRun } = await import("../../backends/dry_run/mod.ts");
      const backend = await dryRun({ family, state, clock }, { read: undefined, onChange: () => {} });
      return backend.describe?.(key);
    },
  });
}
