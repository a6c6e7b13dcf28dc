/** The command line: reads it and starts one command. */
import { type Configuration, parseCommandLine } from "./core/config/mod.ts";
import { systemClock } from "./platform/clock.ts";
import { createLogger, errorText, levelOfVerbosity, type Logger, writeToStderr } from "./platform/log.ts";

/** Runs what the arguments ask for and resolves with the exit status: 0, 1 for a failure, 2 for a bad command line. */
export async function main(args: readonly string[]): Promise<number> {
  const command = parseCommandLine(args, {
    readFile: (path) => Deno.readTextFileSync(path),
    hostname: () => Deno.hostname(),
    builtModes: ["iptables"],
  });
  switch (command.kind) {
    case "help":
    case "version":
      console.log(command.text.trimEnd());
      return 0;
    case "errors":
      for (const warning of command.warnings) writeToStderr(`sluice: warning: ${warning}\n`);
      for (const error of command.errors) writeToStderr(`sluice: ${error}\n`);
      return command.exitCode;
    case "write-config":
      for (const warning of command.warnings) writeToStderr(`sluice: warning: ${warning}\n`);
      return writeConfig(command.path, command.content);
    case "run":
      return await run(command.configuration, command.warnings);
  }
}

function writeConfig(path: string, content: string): number {
  try {
    Deno.writeTextFileSync(path, content);
    return 0;
  } catch (error) {
    writeToStderr(`sluice: --write-config-to: cannot write ${path}: ${errorText(error)}\n`);
    return 1;
  }
}

async function run(configuration: Configuration, warnings: readonly string[]): Promise<number> {
  const logger = createLogger({
    level: levelOfVerbosity(configuration.verbosity),
    format: configuration.loggingFormat ?? (Deno.stderr.isTerminal() ? "text" : "json"),
    clock: systemClock,
    write: writeToStderr,
  });
  for (const warning of warnings) logger.warn(warning);
  try {
    return await startProxy(configuration, logger, signalOfShutdown());
  } catch (error) {
    logger.error("Sluice ends", { error });
    return 1;
  }
}

/** Aborted by SIGTERM or SIGINT. SIGHUP, which a closing terminal sends, is heard and ignored. */
function signalOfShutdown(): AbortSignal {
  const shutdown = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(name, () => shutdown.abort(new Error(`stopped by ${name}`)));
  }
  Deno.addSignalListener("SIGHUP", () => {});
  return shutdown.signal;
}

function startProxy(_configuration: Configuration, _logger: Logger, _signal: AbortSignal): Promise<number> {
  throw new Error("running the proxy is not built yet");
}

if (import.meta.main) Deno.exit(await main(Deno.args));
