import { systemClock } from "../../platform/clock.ts";
import { createLogger } from "../../platform/log.ts";

/** A logger at level error that throws, which ends the benchmark. */
export const throwingLogger = createLogger({
  level: "error",
  format: "text",
  clock: systemClock,
  write: (line) => {
    throw new Error(line.trimEnd());
  },
});
