/** The command line: reads it and starts one command. */
import { type Configuration, parseCommandLine } from "./core/config/mod.ts";
import { systemClock } from "./platform/clock.ts";
import { createLogger, errorText, levelOfVerbosity, writeToStderr } from "./platform/log.ts";

/** Runs what the arguments ask for and resolves with the exit status: 0, 1 for a failure, 2 for a bad command line. */
export async function main(args: readonly string[]): Promise<number> {
  const command = parseCommandLine(args, {
    readFile: (path) => Deno.readTextFileSync(path),
    hostname: () => Deno.hostname(),
    builtModes: ["iptables", "nftables"],
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
  const logging = {
    level: levelOfVerbosity(configuration.verbosity),
    format: configuration.loggingFormat ?? (Deno.stderr.isTerminal() ? "text" : "json"),
  } as const;
  const logger = createLogger({ ...logging, clock: systemClock, write: writeToStderr });
  for (const warning of warnings) logger.warn(warning);
  // A run writes no file; only --write-config-to does.
  Deno.permissions.revokeSync({ name: "write" });
  try {
    const { runProxy } = await import("./core/proxy.ts");
    const { startFamilyWorker } = await import("./workers/start.ts");
    const signal = signalOfShutdown();
    return await runProxy({
      configuration,
      logger,
      logging,
      clock: systemClock,
      startFamily: startFamilyWorker,
      signal,
    });
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

if (import.meta.main) Deno.exit(await main(Deno.args));
