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
  /** Returns a logger that adds `fields` to every line. */
  with(fields: Fields): Logger;
}

const SEVERITY: Readonly<Record<Level, number>> = { error: 0, warn: 1, info: 2, debug: 3, trace: 4 };

/** Options of `createLogger`. */
export interface LoggerOptions {
  readonly level: Level;
  readonly format: "text" | "json";
  readonly clock: Clock;
  /** Receives one complete line, including its newline. */
  readonly write: (line: string) => void;
}

/**
 * Maps kube-proxy's `-v` to a level: 0 to 3 is info (klog's levels for operators), 4 and 5 are debug, 6 and above are
 * trace.
 */
export function levelOfVerbosity(verbosity: number): Level {
  return verbosity >= 6 ? "trace" : verbosity >= 4 ? "debug" : "info";
}

/** Creates a logger that writes one line per message: `TIME LEVEL message key=value …`, or a JSON object. */
export function createLogger(options: LoggerOptions): Logger {
  const make = (bound: Fields): Logger => {
    const at = (level: Level) => (message: string, fields?: Fields) => {
      if (SEVERITY[level] > SEVERITY[options.level]) return;
      const time = new Date(options.clock.now()).toISOString();
      const all = fields ? { ...bound, ...fields } : bound;
      options.write(
        options.format === "json" ? jsonLine(time, level, message, all) : textLine(time, level, message, all),
      );
    };
    return {
      error: at("error"),
      warn: at("warn"),
      info: at("info"),
      debug: at("debug"),
      trace: at("trace"),
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

/** Formats an error for the `error` field: its message, followed by those of its causes. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${errorText(error.cause)}`;
}

function jsonLine(time: string, level: Level, message: string, fields: Fields): string {
  return JSON.stringify({ time, level, message, ...plain(fields) }) + "\n";
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
