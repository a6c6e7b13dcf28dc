import { isAbsent, quote } from "./raw.ts";

/** Collects the problems of one object, so that a thousand bad endpoints do not become a thousand log lines. */
export interface Problems {
  /** Adds one sentence, without its full stop. */
  add(sentence: string): void;
  /** The first sentences in full, and the number of the others. */
  sentences(): readonly string[];
}

const MOST_SENTENCES = 10;
const NONE: readonly string[] = [];

/** An empty collection. */
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
      return more === 0 ? kept : [...kept, `${more} more parts cannot be used and are ignored`];
    },
  };
}

const EMPTY: readonly unknown[] = [];

/** The list in a field; empty if it is absent or, with a problem, not a list. */
export function listOf(value: unknown, field: string, problems: Problems): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (!isAbsent(value)) problems.add(`${field} is ${quote(value)}, not a list; ignored`);
  return EMPTY;
}

/** Whether a value is a whole number within bounds. */
export function isWholeNumber(value: unknown, least: number, most: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
}
