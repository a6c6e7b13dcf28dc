import { systemClock } from "../../platform/clock.ts";
import { createLogger } from "../../platform/log.ts";

/** A logger for code that should have nothing to say but errors, which end the benchmark. */
export const throwingLogger = createLogger({
  level: "error",
  format: "text",
  clock: systemClock,
  write: (line) => {
    throw new Error(line.trimEnd());
  },
});
