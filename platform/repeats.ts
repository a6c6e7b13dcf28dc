/** Rate-limits repeated warnings and errors, so that a persistent problem neither fills the disk nor hides others. */
import type { Clock } from "./clock.ts";
import { type Fields, type Level, type Logger } from "./log.ts";

/** A message that was logged and is suppressed until the end of its window. */
interface Suppressed {
  /** Number of suppressed repetitions. */
  times: number;
  /** Logs the latest repetition. */
  log: (fields: Fields) => void;
}

/** A logger that suppresses repetitions. */
export interface LimitedLogger extends Logger {
  /** Logs everything suppressed so far; call it before the process exits. */
  flush(): void;
}

const WINDOW_MS = 60_000;
const MAX_SUPPRESSED = 4096;

/**
 * Wraps a logger so that a repeated warning or error is logged at most once a minute: the first at once, then at the end
 * of each minute with repetitions, with their number as field `times`. Two messages are equal if their level, text and
 * non-numeric fields are; delays and counts differ every time.
 */
export function limitRepeats(logger: Logger, clock: Clock): LimitedLogger {
  const suppressed = new Map<string, Suppressed>();

  const openWindow = (key: string) => {
    clock.schedule(WINDOW_MS, () => {
      const { times, log } = suppressed.get(key)!;
      suppressed.delete(key);
      if (times === 0) return;
      log({ times });
      suppressed.set(key, { times: 0, log });
      openWindow(key);
    });
  };

  const wrap = (inner: Logger, bound: Fields): Logger => {
    const limited = (level: Level & ("warn" | "error")) => (message: string, fields: Fields = {}) => {
      const key = keyOf(level, message, { ...bound, ...fields });
      const log = (more: Fields) => inner[level](message, { ...fields, ...more });
      const known = suppressed.get(key);
      if (known === undefined) {
        log({});
        if (suppressed.size >= MAX_SUPPRESSED) return;
        suppressed.set(key, { times: 0, log });
        openWindow(key);
        return;
      }
      known.times++;
      known.log = log;
    };
    return {
      error: limited("error"),
      warn: limited("warn"),
      info: (message, fields) => inner.info(message, fields),
      debug: (message, fields) => inner.debug(message, fields),
      trace: (message, fields) => inner.trace(message, fields),
      with: (fields) => wrap(inner.with(fields), { ...bound, ...fields }),
    };
  };
  return {
    ...wrap(logger, {}),
    flush() {
      for (const one of suppressed.values()) {
        if (one.times > 0) one.log({ times: one.times });
        one.times = 0;
      }
    },
  };
}

function keyOf(level: Level, message: string, fields: Fields): string {
  const identifying = Object.entries(fields).filter(([, value]) => typeof value !== "number");
  return JSON.stringify([level, message, identifying], (_, value) => value instanceof Error ? value.message : value);
}
