import { isAbsent, quote } from "./raw.ts";

/** Collects what cannot be used of one object, so that a thousand bad endpoints do not become a thousand log lines. */
export interface Problems {
  /** One sentence, without its full stop. */
  add(sentence: string): void;
  /** What was added, the first of them in full and the rest as a number. */
  sentences(): readonly string[];
}

const MOST_SENTENCES = 10;
const NONE: readonly string[] = [];

/** Starts without a problem. */
export function createProblems(): Problems {
  let kept: string[] | undefined;
  let more = 0;
  return {
    add(sentence) {
      if (kept === undefined) kept = [sentence];
      else if (kept.length < MOST_SENTENCES) kept.push(sentence);
      else more++;
    },
    sentences() {
      if (kept === undefined) return NONE;
      return more === 0 ? kept : [...kept, `${more} more of its parts cannot be used and are left out`];
    },
  };
}

const EMPTY: readonly unknown[] = [];

/** The list in a field; an empty one where it is absent, or, with a problem, where it is something else. */
export function listOf(value: unknown, field: string, problems: Problems): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (!isAbsent(value)) problems.add(`${field} is ${quote(value)} where a list is expected; it is left out`);
  return EMPTY;
}

/** Whether a value is a whole number within bounds. */
export function isWholeNumber(value: unknown, least: number, most: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
}
