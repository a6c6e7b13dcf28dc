/** Formats numbers for people, parses them, measures text, and suggests similar names. */

/**
 * Formats a duration in its largest unit, with at least two significant digits.
 *
 * ```ts
 * import { durationText } from "./text.ts";
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual([0.84, 12, 3400, 125_000, 2e7].map(durationText), ["0.8 ms", "12 ms", "3.4 s", "2 min", "5 h"]);
 * ```
 */
export function durationText(ms: number): string {
  if (ms < 9.95) return `${(Math.round(ms * 10) / 10).toString()} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${(Math.round(seconds * 10) / 10).toString()} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** Formats a count with thousands separators: `10,000`. */
export function countText(count: number): string {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Formats a count with its noun, and a plural of its own if it needs one: `1 endpoint`, `3 endpoints`, `2 addresses`. */
export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${countText(count)} ${count === 1 ? noun : nouns}`;
}

/** Formats words as alternatives: `a`, `a or b`, `a, b or c`. */
export function orList(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** Formats bytes as megabytes (10⁶): `170 MB`. */
export function megabytesText(bytes: number): string {
  return `${countText(bytes / 1e6)} MB`;
}

/** Formats a rate with three digits: `0`, `0.05`, `12.3`, `4.56k`, `1.2M`. */
export function rateText(perSecond: number): string {
  const units = [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const;
  const [size, unit] = units.find(([size]) => perSecond >= size * 0.9995) ?? [1, ""];
  const value = perSecond / size;
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${Number(value.toFixed(digits))}${unit}`;
}

/** Formats a time as `12:03:41` in UTC, as in the log. */
export function timeOfDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(11, 19);
}

/** Formats a time in whole seconds, as the API's are: `2026-01-31T12:03:41Z`. */
export function timestamp(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d+Z$/, "Z");
}

/** Parses an integer as Go's strconv.ParseInt does with base 0: also 0x1f, 0b11, 0o17 and 017. */
export function parseInteger(given: string): number | undefined {
  const [, sign, digits] = /^([+-]?)(0[xX][\da-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9]\d*)$/.exec(given) ?? [];
  if (digits === undefined) return undefined;
  const magnitude = /^0\d/.test(digits) ? parseInt(digits, 8) : Number(digits);
  return sign === "-" && magnitude !== 0 ? -magnitude : magnitude;
}

/** Counts the newlines of a text. */
export function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
}

/**
 * Replaces control characters in a line, except tabs, and characters that change the direction of text, with spaces: foreign
 * data, such as the annotation of a Service, must not control the terminal.
 */
export function printable(line: string): string {
  return line.replace(/(?!\t)[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ");
}

/** The most similar candidate by edit distance, ignoring case; undefined if all differ in more than this part of its letters. */
export function nearest(name: string, candidates: Iterable<string>, part = 1 / 2): string | undefined {
  let best: string | undefined;
  let fewest = Math.max(1, Math.floor(name.length * part)) + 1;
  for (const candidate of candidates) {
    // Texts differ at least in their lengths; a key of a file may have a megabyte.
    if (Math.abs(name.length - candidate.length) >= fewest) continue;
    const apart = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (apart < fewest) [best, fewest] = [candidate, apart];
  }
  return best;
}

/** The end of a message: `; did you mean X?`, or nothing if no candidate is similar. */
export function suggestion(name: string, candidates: Iterable<string>): string {
  const meant = nearest(name, candidates);
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      current.push(Math.min(replaced, previous[j]! + 1, current[j - 1]! + 1));
    }
    previous = current;
  }
  return previous[b.length]!;
}
