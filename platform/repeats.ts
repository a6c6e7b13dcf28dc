/** A problem that stays must not fill the disk, nor hide the others. */
import type { Clock } from "./clock.ts";
import { type Fields, type Level, type Logger } from "./log.ts";

/** What was said once and is held back since. */
interface Held {
  /** How often it came since. */
  times: number;
  /** Says it as it came last. */
  say: (fields: Fields) => void;
}

/** A logger that holds back what repeats. */
export interface LimitedLogger extends Logger {
  /** Says what is held back now: nothing of it is to be lost when the process ends. */
  flush(): void;
}

const WINDOW_MS = 60_000;
const MOST_HELD = 4096;

/**
 * A logger through which a warning or an error that repeats is said once a minute at most: the first at once, and at the
 * end of each minute in which it came again, once more with how many `times` that was. Two are the same when their
 * message and all their fields but numbers are; waits and counts differ every time.
 */
export function limitRepeats(logger: Logger, clock: Clock): LimitedLogger {
  const held = new Map<string, Held>();

  const hold = (key: string) => {
    clock.schedule(WINDOW_MS, () => {
      const { times, say } = held.get(key)!;
      held.delete(key);
      if (times === 0) return;
      say({ times });
      held.set(key, { times: 0, say });
      hold(key);
    });
  };

  const make = (inner: Logger, bound: Fields): Logger => {
    const limited = (level: Level & ("warn" | "error")) => (message: string, fields: Fields = {}) => {
      const key = keyOf(level, message, { ...bound, ...fields });
      const say = (more: Fields) => inner[level](message, { ...fields, ...more });
      const known = held.get(key);
      if (known === undefined) {
        say({});
        if (held.size >= MOST_HELD) return;
        held.set(key, { times: 0, say });
        hold(key);
        return;
      }
      known.times++;
      known.say = say;
    };
    return {
      error: limited("error"),
      warn: limited("warn"),
      info: (message, fields) => inner.info(message, fields),
      debug: (message, fields) => inner.debug(message, fields),
      trace: (message, fields) => inner.trace(message, fields),
      with: (fields) => make(inner.with(fields), { ...bound, ...fields }),
    };
  };
  return {
    ...make(logger, {}),
    flush() {
      for (const one of held.values()) {
        if (one.times > 0) one.say({ times: one.times });
        one.times = 0;
      }
    },
  };
}

function keyOf(level: Level, message: string, fields: Fields): string {
  const telling = Object.entries(fields).filter(([, value]) => typeof value !== "number");
  return JSON.stringify([level, message, telling], (_, value) => value instanceof Error ? value.message : value);
}
