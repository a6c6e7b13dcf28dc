/** Runs commands in tests as main.ts does, and captures their output. */
import assert from "node:assert/strict";
import { COMMANDS, contextOf } from "../../../../cli/commands/mod.ts";
import { readCommandLine } from "../../../../config/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { createLogger } from "../../../../platform/log.ts";

/** Options of `invoke`. */
export interface InvokeOptions {
  /** Stops the command. */
  readonly signal?: AbortSignal;
  /** Called with output as it is printed. */
  readonly onPrint?: (text: string) => void;
  /** Called with each line of the log. */
  readonly onLog?: (line: string) => void;
  /** Whether the flags are those of the installed service. */
  readonly isInstalled?: boolean;
}

/** Runs a command line to its end and returns its standard output and its log. */
export async function invoke(
  args: readonly string[],
  options: InvokeOptions = {},
): Promise<{ status: number; stdout: string; log: string }> {
  const line = await readCommandLine(args, { ...contextOf(COMMANDS), hostname: () => "node-a" });
  assert(line.kind === "start", line.kind === "errors" ? line.errors.join("\n") : line.kind);
  let stdout = "", log = "";
  const write = (line: string) => {
    log += line;
    options.onLog?.(line);
  };
  const logging = { level: "info", format: "text" } as const;
  const started = COMMANDS.find(({ name }) => name === line.command)!.start({
    commands: COMMANDS,
    configuration: line.configuration,
    arguments: line.arguments,
    flags: line.flags,
    warnings: line.warnings,
    isInstalled: options.isInstalled ?? false,
    reread: () => Promise.resolve(line),
    logging,
    logger: createLogger({ ...logging, clock: systemClock, write }),
    clock: systemClock,
    signal: options.signal ?? new AbortController().signal,
    lost: new AbortController(),
    print(text) {
      stdout += text;
      options.onPrint?.(text);
    },
  });
  const status = await started.catch((error) => {
    if (error.exitStatus !== 2) throw error;
    return 2;
  });
  return { status, stdout, log };
}
