/** Structured log lines, and a rate limit, so that a persistent problem neither fills the disk nor hides others. */
import type { Clock } from "./clock.ts";

/** Log level, from most to least severe. */
export type Level = "error" | "warn" | "info" | "debug" | "trace";

/** Structured fields of a log line: `service`, `family`, `file`. */
export type Fields = Readonly<Record<string, unknown>>;

/** Structured logger. Messages are lower-case phrases; everything variable goes into fields. */
export interface Logger {
  error(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  trace(message: string, fields?: Fields): void;
  /**
   * Says that the cause of earlier warnings and errors with these fields, and with the logger's own, is gone: repetitions
   * that a rate limit holds back are not printed any more.
   */
  solved(fields?: Fields): void;
  /** Returns a logger that adds `fields` to every line. */
  with(fields: Fields): Logger;
}

/** The clock and the logger that most parts get. */
export interface ClockAndLogger {
  readonly clock: Clock;
  readonly logger: Logger;
}

const SEVERITY: Readonly<Record<Level, number>> = { error: 0, warn: 1, info: 2, debug: 3, trace: 4 };

/** Maps kube-proxy's `-v` to a level: 0 to 3 is info (as klog's), 4 and 5 are debug, 6 and above are trace. */
export function levelOfVerbosity(verbosity: number): Level {
  return verbosity >= 6 ? "trace" : verbosity >= 4 ? "debug" : "info";
}

/** Creates a logger that writes one line per message: `TIME LEVEL message key=value …`, or a JSON object. */
export function createLogger(options: {
  readonly level: Level;
  readonly format: "text" | "json";
  readonly clock: Clock;
  /** Receives one complete line, including its newline. */
  readonly write: (line: string) => void;
}): Logger {
  const make = (bound: Fields): Logger => {
    const at = (level: Level) => (message: string, fields?: Fields) => {
      if (SEVERITY[level] > SEVERITY[options.level]) return;
      const time = new Date(options.clock.now()).toISOString();
      const all = fields ? { ...bound, ...fields } : bound;
      options.write(
        options.format === "json"
          ? `${JSON.stringify({ time, level, message, ...plain(all) })}\n`
          : textLine(time, level, message, all),
      );
    };
    return {
      error: at("error"),
      warn: at("warn"),
      info: at("info"),
      debug: at("debug"),
      trace: at("trace"),
      solved() {},
      with: (fields) => make({ ...bound, ...fields }),
    };
  };
  return make({});
}

/** A logger that discards everything. */
export const silentLogger: Logger = createLogger({
  level: "error",
  format: "text",
  clock: { now: () => 0, monotonic: () => 0, schedule: () => () => {} },
  write: () => {},
});

/** Formats an error for the `error` field: its message, followed by the messages of its causes, each once. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = withoutRuntime(error.message);
  if (error.cause === undefined) return message;
  const cause = errorText(error.cause);
  // node:http2: `The pending stream has been canceled (caused by: …)`.
  if (message.endsWith(`(caused by: ${cause})`)) return cause;
  return message.includes(cause) ? message : `${message}: ${cause}`;
}

/** Formats an error of a file operation like `errorText`, without the paths at its end, for a message that names the file itself. */
export function fileErrorText(error: unknown): string {
  return errorText(error).replace(/: '[^']*'(?: -> '[^']*')?$/, "");
}

/** The executable has no permission for what Deno calls special files. */
const SPECIAL = /^Requires all access to "(.*?)",.*/;

/** Returns Deno's message without the number of the error and the name of the function: `(os error 2): readfile '/x'`. */
function withoutRuntime(message: string): string {
  const plain = message.replace(SPECIAL, "Sluice opens no files below /dev, /proc and /sys: '$1'");
  return plain.replace(/ \(os error \d+\)(?:: [a-z]+ (?='))?/g, (found) => found.endsWith(" ") ? ": " : "");
}

function textLine(time: string, level: Level, message: string, fields: Fields): string {
  let line = `${time} ${level.toUpperCase().padEnd(5)} ${escapeControl(message)}`;
  for (const [key, value] of Object.entries(plain(fields))) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    line += ` ${key}=${/^[\w./:@-]+$/.test(text) ? text : typeof value === "string" ? JSON.stringify(text) : text}`;
  }
  return line + "\n";
}

function plain(fields: Fields): Record<string, unknown> {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries.map(([key, value]) => [key, value instanceof Error ? errorText(value) : value]));
}

function escapeControl(message: string): string {
  // deno-lint-ignore no-control-regex -- a message may contain foreign text and must stay on one line
  return message.replace(/[\u0000-\u001f\u007f]/g, (c) => JSON.stringify(c).slice(1, -1));
}

/** A message that was logged and is suppressed until the end of its window. */
interface Suppressed {
  readonly fields: Fields;
  times: number;
  log: (fields: Fields) => void;
  /** When it was logged last, by the monotonic clock. */
  loggedAtMs: number;
  /** Whether its cause was solved since the last one. */
  isSolved: boolean;
  cancel: () => void;
}

/** A logger that suppresses repetitions. */
export interface LimitedLogger extends Logger {
  /** Logs everything suppressed so far; call it before the process exits. */
  flush(): void;
}

const WINDOW_MS = 60_000;
/** The window of what comes back after it was solved: a silent log would say that it is still solved. */
const RETURNED_MS = 10_000;
const MAX_SUPPRESSED = 4096;

/**
 * Wraps a logger so that a repeated warning or error is logged at most once a minute: the first at once, then at the end
 * of each minute with repetitions, with their number as field `times`, unless the cause was `solved` since the last one. What
 * comes back after that is logged 10 s after the last time, or at once if that is over.
 * Two messages are equal if their level, text and non-numeric fields are, apart from numbers within a sentence: delays and
 * counts differ every time.
 */
export function limitRepeats(logger: Logger, clock: Clock): LimitedLogger {
  const suppressed = new Map<string, Suppressed>();

  const openWindow = (key: string, log: Suppressed["log"], fields: Fields) => {
    const cancel = clock.schedule(WINDOW_MS, () => endWindow(key));
    suppressed.set(key, { times: 0, log, fields, loggedAtMs: clock.monotonic(), isSolved: false, cancel });
  };
  const endWindow = (key: string) => {
    const { times, log, fields } = suppressed.get(key)!;
    suppressed.delete(key);
    if (times === 0) return;
    log({ times });
    openWindow(key, log, fields);
  };
  const shortenWindow = (key: string, one: Suppressed) => {
    one.isSolved = false;
    one.cancel();
    const leftMs = one.loggedAtMs + RETURNED_MS - clock.monotonic();
    if (leftMs <= 0) endWindow(key);
    else one.cancel = clock.schedule(leftMs, () => endWindow(key));
  };

  const wrap = (inner: Logger, bound: Fields): Logger => {
    const limited = (level: Level & ("warn" | "error")) => (message: string, fields: Fields = {}) => {
      const all = { ...bound, ...fields };
      const key = keyOf(level, message, all);
      const log = (more: Fields) => inner[level](message, { ...fields, ...more });
      const known = suppressed.get(key);
      if (known === undefined) {
        log({});
        if (suppressed.size >= MAX_SUPPRESSED) return;
        openWindow(key, log, all);
        return;
      }
      known.times++;
      known.log = log;
      if (known.isSolved) shortenWindow(key, known);
    };
    return {
      error: limited("error"),
      warn: limited("warn"),
      info: (message, fields) => inner.info(message, fields),
      debug: (message, fields) => inner.debug(message, fields),
      trace: (message, fields) => inner.trace(message, fields),
      solved(fields = {}) {
        const wanted = Object.entries({ ...bound, ...fields });
        for (const one of suppressed.values()) {
          if (wanted.every(([name, value]) => one.fields[name] === value)) {
            Object.assign(one, { times: 0, isSolved: true });
          }
        }
      },
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

/** A number in a sentence, with its unit; not a part of a name, an address or a port: `IPv4`, `web-1`, `192.0.2.1:80`. */
const NUMBER = /(?<![\w.:/[-])\d+(?:,\d{3})*(?:\.\d+)?(?: ?(?:ms|s|min|h|d))?(?![\w:/-]|\.\d)/g;

function keyOf(level: Level, message: string, fields: Fields): string {
  const identifying = Object.entries(fields).filter(([, value]) => typeof value !== "number");
  return JSON.stringify([level, message, identifying], (_, value) => {
    const text = value instanceof Error ? value.message : value;
    return typeof text === "string" ? text.replace(NUMBER, "#") : text;
  });
}
