/** A JSON object of which nothing is known. */
export type RawObject = Readonly<Record<string, unknown>>;

/** The value as a JSON object; an empty one where it is anything else. */
export function rawObject(value: unknown): RawObject {
  return isRawObject(value) ? value : {};
}

/** Whether a value is a JSON object: neither a list nor null. */
export function isRawObject(value: unknown): value is RawObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a field is absent: not there, or null, which the API means the same by. */
export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/** The string, or "" for anything else. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

const LONGEST_QUOTE = 80;

/** Writes out what nobody sees and what turns the text around it, so that no log line reads as another one. */
function escaped(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (c) => `\\u${c.codePointAt(0)!.toString(16).padStart(4, "0")}`);
}

/** A foreign value as it stands in a problem's sentence: quoted and short, whatever it is. */
export function quote(value: unknown): string {
  switch (typeof value) {
    case "string":
      return escaped(JSON.stringify(value.length > LONGEST_QUOTE ? `${value.slice(0, LONGEST_QUOTE)}…` : value));
    case "number":
    case "boolean":
      return String(value);
    case "object":
      return value === null ? "null" : Array.isArray(value) ? "a list" : "an object";
    default:
      return `a ${typeof value}`;
  }
}
