import type { Configuration } from "../core/config/mod.ts";
import type { ProxyOptions } from "../core/proxy_options.ts";
import { systemClock } from "../platform/clock.ts";
import { createLogger, levelOfVerbosity } from "../platform/log.ts";
import { writeToStderr } from "../platform/output.ts";
import { type LimitedLogger, limitRepeats } from "../platform/repeats.ts";

/** The logger of this process, as the configuration asks for it, and how its workers are to log. */
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
