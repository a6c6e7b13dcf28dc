/** Starting commands in tests as the command line does, with what they print kept. */
import assert from "node:assert/strict";
import { COMMANDS } from "../../../../cli/commands/commands.ts";
import { readCommandLine } from "../../../../config/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { createLogger } from "../../../../platform/log.ts";

/** What a command that does not end by itself is started with. */
export interface InvokeOptions {
  /** Ends it. */
  readonly signal?: AbortSignal;
  /** Is told what it prints when it does. */
  readonly onPrint?: (text: string) => void;
}

/** Runs a command line to its end; `log` is what it logged, and what else it wrote to standard error. */
export async function invoke(
  args: readonly string[],
  options: InvokeOptions = {},
): Promise<{ status: number; stdout: string; log: string }> {
  const line = await readCommandLine(args, {
    readFile: (path) => Deno.readTextFileSync(path),
    hostname: () => "node-a",
    kernelRelease: () => Deno.osRelease(),
    builtModes: ["iptables", "nftables", "ipvs"],
    commands: COMMANDS,
  });
  assert(line.kind === "start", line.kind === "errors" ? line.errors.join("\n") : line.kind);
  let stdout = "", log = "";
  const logging = { level: "info", format: "text" } as const;
  const status = await COMMANDS.find(({ name }) => name === line.command)!.start({
    configuration: line.configuration,
    arguments: line.arguments,
    flags: line.flags,
    reread: () => Promise.resolve(line),
    logging,
    logger: createLogger({ ...logging, clock: systemClock, write: (text) => log += text }),
    clock: systemClock,
    signal: options.signal ?? new AbortController().signal,
    lost: new AbortController(),
    print(text) {
      stdout += text;
      options.onPrint?.(text);
    },
  });
  return { status, stdout, log };
}
