/** A JSON object of unknown shape. */
export type RawObject = Readonly<Record<string, unknown>>;

/** The value if it is a JSON object, else an empty object. */
export function rawObject(value: unknown): RawObject {
  return isRawObject(value) ? value : {};
}

/** Whether a value is a JSON object, not a list or null. */
export function isRawObject(value: unknown): value is RawObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a field is missing or null, which are the same to the API. */
export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/** The string, or "" for anything else. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

const NO_STRINGS: Readonly<Record<string, string>> = Object.freeze({});

/** The properties that are strings and whose keys are chosen. */
export function stringsOf(raw: RawObject, isChosen: (key: string) => boolean): Readonly<Record<string, string>> {
  const entries = Object.entries(raw).filter((entry): entry is [string, string] =>
    typeof entry[1] === "string" && isChosen(entry[0])
  );
  return entries.length === 0 ? NO_STRINGS : Object.fromEntries(entries);
}

const LONGEST_QUOTE = 80;

/** Escapes control characters and those that change the direction of text, so that a value cannot forge a log line. */
function escaped(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (c) => `\\u${c.codePointAt(0)!.toString(16).padStart(4, "0")}`);
}

/** Quotes an untrusted value for a problem's sentence, escaped and shortened. */
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
