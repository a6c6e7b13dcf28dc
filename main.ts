/** Entry point: reads the command line and starts one command. */
import {
  argumentsUnder,
  COMMANDS,
  contextOf,
  createProcessLogger,
  dropPermissions,
  programNames,
  startCredentialPlugin,
} from "./cli/commands/mod.ts";
import {
  type CommandLine,
  type Configuration,
  type InstalledService,
  partOfInstalled,
  readCommandLine,
  RUN,
  withInstalled,
  writeDocument,
} from "./config/mod.ts";
import { errorText, fileErrorText, systemClock, writeToStderr, writeToStdout } from "./platform/mod.ts";

/** Runs the command line and resolves with the exit status: 0, 1 for a failure, 2 for a usage error. */
export async function main(given: readonly string[]): Promise<number> {
  const { args, installed } = await withInstalledService(given);
  const read = () => readCommandLine(args, contextOf(COMMANDS));
  if (installed !== undefined) {
    writeToStderr(`sluice: using ${[installed.configuration, ...installed.words].join(" ")}\n`);
  }
  const line = await read();
  switch (line.kind) {
    case "help": {
      const { helpText } = await import("./cli/manual/mod.ts");
      return say(helpText(line.command, COMMANDS));
    }
    case "version":
      return say(line.text);
    case "errors":
      printWarnings(line.warnings);
      for (const error of line.errors) writeToStderr(`sluice: ${error}\n`);
      return line.exitCode;
    case "write-config":
      printWarnings(line.warnings);
      return await writeConfig(line.path, line.configuration);
    case "start":
      return await start(line, read, installed !== undefined);
  }
}

function say(text: string): number {
  try {
    writeToStdout(`${text.trimEnd()}\n`);
    return 0;
  } catch (error) {
    writeToStderr(`sluice: ${errorText(error)}\n`);
    return 1;
  }
}

/** Adds the flags of the installed service for commands that use it; `installed` is set if its configuration is used. */
async function withInstalledService(
  args: readonly string[],
): Promise<{ readonly args: readonly string[]; readonly installed?: InstalledService }> {
  const part = partOfInstalled(args, COMMANDS);
  if (part === undefined) return { args };
  const { installedService } = await import("./cli/installation/mod.ts");
  const installed = installedService("");
  if (installed === undefined) return { args };
  return { args: withInstalled(args, part, installed), installed: part === "configuration" ? installed : undefined };
}

function printWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) writeToStderr(`sluice: warning: ${warning}\n`);
}

async function writeConfig(path: string, configuration: Configuration): Promise<number> {
  try {
    const text = await writeDocument(configuration);
    if (path === "-") writeToStdout(text);
    else Deno.writeTextFileSync(path, text);
    return 0;
  } catch (error) {
    const hint = error instanceof Deno.errors.NotCapable ? " (- prints to standard output)" : "";
    writeToStderr(`sluice: --write-config-to: cannot write ${path}: ${fileErrorText(error)}${hint}\n`);
    return 1;
  }
}

async function start(
  line: CommandLine & { kind: "start" },
  reread: () => Promise<CommandLine>,
  isInstalled: boolean,
): Promise<number> {
  const { configuration, warnings, arguments: given, flags } = line;
  const { logger, logging } = createProcessLogger(configuration);
  const command = COMMANDS.find(({ name }) => name === line.command)!;
  if (command.lasts) warnings.forEach((warning) => logger.warn(warning));
  else printWarnings(warnings);
  const lost = new AbortController(), unread = new AbortController();
  try {
    const runProgram = await startCredentialPlugin(configuration, (reason) => lost.abort(new Error(reason)));
    if (!command.startsPrograms) dropPermissions("run");
    if (command.name !== RUN) dropPermissions("ffi");
    return await command.start({
      commands: COMMANDS,
      configuration,
      arguments: given,
      flags,
      warnings,
      isInstalled,
      reread,
      logger,
      logging,
      clock: systemClock,
      runProgram,
      lost,
      signal: AbortSignal.any([shutdownSignal(), unread.signal]),
      print(text) {
        if (!writeToStdout(text) && command.streams) unread.abort(new Error("nobody reads the output any more"));
      },
    });
  } catch (error) {
    const status = error instanceof Error && "exitStatus" in error ? Number(error.exitStatus) : 1;
    if (status === 2) writeToStderr(`sluice: ${errorText(error)}\n`);
    else if (command.lasts) logger.error("exiting", { error });
    else writeToStderr(`sluice ${command.name}: ${errorText(error)}\n`);
    return status;
  } finally {
    logger.flush();
  }
}

/** Returns a signal aborted by SIGTERM or SIGINT. Ignores SIGHUP, which a closing terminal sends. */
function shutdownSignal(): AbortSignal {
  const shutdown = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(name, () => shutdown.abort(new Error(`stopped by ${name}`)));
  }
  Deno.addSignalListener("SIGHUP", () => {});
  return shutdown.signal;
}

if (import.meta.main) Deno.exit(await main(argumentsUnder(programNames(Deno.args), Deno.args)));
