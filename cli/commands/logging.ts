import type { Configuration } from "../../config/mod.ts";
import type { ProxyOptions } from "../../proxy/mod.ts";
import {
  createLogger,
  levelOfVerbosity,
  type LimitedLogger,
  limitRepeats,
  systemClock,
  writeToStderr,
} from "../../platform/mod.ts";

/** Creates the configured logger of this process; `logging` configures those of the workers alike. */
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
