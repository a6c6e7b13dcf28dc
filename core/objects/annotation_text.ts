import { isAbsent, type RawObject } from "./raw.ts";

/** The maximum length of an annotation that Sluice reads, in characters. */
export const LONGEST_ANNOTATION = 4_096;

const TOO_LONG = " ".repeat(LONGEST_ANNOTATION + 1);

/**
 * Reads an annotation of Sluice's own, unparsed; undefined if the object does not have it. One that is too long is replaced by
 * spaces, one more than permitted, so that the planner can report it without storing its text.
 */
export function readAnnotation(annotations: RawObject, key: string): string | undefined {
  const value = annotations[key];
  if (isAbsent(value)) return undefined;
  // The API only accepts strings; a manifest may have a number.
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > LONGEST_ANNOTATION ? TOO_LONG : text;
}
