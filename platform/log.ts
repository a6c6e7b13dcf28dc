import type { Clock } from "./clock.ts";

/** From what always matters to what only a developer reads. */
export type Level = "error" | "warn" | "info" | "debug" | "trace";

/** What a line is about, by name: `service`, `family`, `file`. */
export type Fields = Readonly<Record<string, unknown>>;

/** The one way to say something to the operator. */
export interface Logger {
  error(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  trace(message: string, fields?: Fields): void;
  /** A logger whose every line also carries `fields`. */
  with(fields: Fields): Logger;
}

const SEVERITY: Readonly<Record<Level, number>> = { error: 0, warn: 1, info: 2, debug: 3, trace: 4 };

/** Where lines go, and which. */
export interface LoggerOptions {
  readonly level: Level;
  readonly format: "text" | "json";
  readonly clock: Clock;
  /** Takes one finished line, its newline included. */
  readonly write: (line: string) => void;
}

/**
 * The level that kube-proxy's `-v` number asks for: 0 to 3 is what an operator reads (klog's everyday verbosity),
 * 4 and 5 add details, 6 and more add everything.
 */
export function levelOfVerbosity(verbosity: number): Level {
  return verbosity >= 6 ? "trace" : verbosity >= 4 ? "debug" : "info";
}

/** A logger that writes a line per message: `TIME LEVEL message key=value …`, or a JSON object. */
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

/** A logger that says nothing. */
export const silentLogger: Logger = createLogger({
  level: "error",
  format: "text",
  clock: { now: () => 0, monotonic: () => 0, schedule: () => () => {} },
  write: () => {},
});

/** The text of an error for a `error` field: its message, and its causes' after it. */
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
  // deno-lint-ignore no-control-regex -- a message may quote foreign text; it must stay on its line
  return message.replace(/[\u0000-\u001f\u007f]/g, (c) => JSON.stringify(c).slice(1, -1));
}
