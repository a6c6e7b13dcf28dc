const NANOSECONDS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  "µs": 1e3,
  "μs": 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};

const PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/gy;

/** The first duration too long for Go's 64 bits of nanoseconds. */
const LONGEST_NS = 2 ** 63;

/**
 * Parses a duration in Go's syntax (`1h2m3s`, `300ms`, `-1.5h`, `0`) to milliseconds, with a fraction for microseconds and
 * nanoseconds; undefined for anything that Go's time.ParseDuration refuses.
 *
 * ```ts
 * import { parseDuration } from "./duration.ts";
 * import assert from "node:assert/strict";
 *
 * assert.equal(parseDuration("1h2m3s"), 3_723_000);
 * assert.equal(parseDuration("1500us"), 1.5);
 * assert.equal(parseDuration("30"), undefined);
 * ```
 */
export function parseDuration(text: string): number | undefined {
  const sign = text.startsWith("-") ? -1 : 1;
  const unsigned = /^[+-]/.test(text) ? text.slice(1) : text;
  if (unsigned === "0") return 0;
  let ns = 0;
  let end = 0;
  for (const part of unsigned.matchAll(PART)) {
    ns += Number(part[1]) * NANOSECONDS[part[2]!]!;
    end = part.index + part[0].length;
  }
  if (end === 0 || end !== unsigned.length || ns >= LONGEST_NS) return undefined;
  return Math.round(ns) === 0 ? 0 : sign * Math.round(ns) / 1e6;
}

/**
 * Formats a duration in milliseconds as Go does.
 *
 * ```ts
 * import { formatDuration } from "./duration.ts";
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual([3_723_000, 300, 1500, 0].map(formatDuration), ["1h2m3s", "300ms", "1.5s", "0s"]);
 * ```
 */
export function formatDuration(ms: number): string {
  const ns = Math.round(Math.abs(ms) * 1e6);
  const sign = ms < 0 ? "-" : "";
  if (ns === 0) return "0s";
  if (ns < 1e3) return `${sign}${ns}ns`;
  if (ns < 1e6) return `${sign}${ns / 1e3}µs`;
  if (ns < 1e9) return `${sign}${ns / 1e6}ms`;
  const minutes = Math.floor(ns / 60e9);
  const hours = Math.floor(minutes / 60);
  const seconds = `${decimal(ns - minutes * 60e9)}s`;
  if (hours > 0) return `${sign}${hours}h${minutes % 60}m${seconds}`;
  return minutes > 0 ? `${sign}${minutes}m${seconds}` : `${sign}${seconds}`;
}

function decimal(ns: number): string {
  const fraction = String(ns % 1e9).padStart(9, "0").replace(/0+$/, "");
  const whole = Math.floor(ns / 1e9);
  return fraction === "" ? String(whole) : `${whole}.${fraction}`;
}
