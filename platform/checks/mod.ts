/**
 * Checks of plain data that another isolate has sent.
 *
 * In: any value. Out: whether it is valid. May touch: nothing.
 */

/** Whether a value is valid. */
export type Check = (value: unknown) => boolean;

/** Whether a value is valid, and therefore of this type. */
export type TypeCheck<T> = (value: unknown) => value is T;

/**
 * The checks of the fields of an object, which may have no others. Every field of `T` has one, so that a new field of the
 * model cannot be forgotten here.
 */
export type Fields<T> = { readonly [Name in keyof Required<T>]: Check };

/** Whether a value is one of these. */
export const oneOf = <const T>(...values: readonly T[]): TypeCheck<T> => (value): value is T =>
  values.includes(value as T);
/** Whether a value is a text. */
export const isText = (value: unknown): value is string => typeof value === "string";
/** Whether a value is a text of this form. */
export const text = (pattern: RegExp): Check => (value) => isText(value) && pattern.test(value);
/** Whether a value is an integer in this range. */
export const integer = (least: number, greatest: number): Check => (value) =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= greatest;
/** Whether a value is undefined or passes the check. */
export const optional = (check: Check): Check => (value) => value === undefined || check(value);
/** Whether a value is a list whose elements pass the check. */
export const list = (check: Check): Check => (value) => Array.isArray(value) && value.every(check);
/** Whether a value is true or false. */
export const isBoolean = (value: unknown): boolean => typeof value === "boolean";
/** Whether a value is a port between isolates. */
export const isPort = (value: unknown): boolean => value instanceof MessagePort;

/** Returns the name of the first invalid field, quoted; undefined if all are valid. */
export function wrongField<T>(fields: Fields<T>, value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return "(not an object)";
  const given = value as Readonly<Record<string, unknown>>;
  for (const name in given) if (!Object.hasOwn(fields, name)) return `${quoted(name)} (unknown)`;
  for (const name in fields) if (!fields[name](given[name])) return quoted(name);
  return undefined;
}

/** Whether a value is an object whose fields pass their checks, and has no others. */
export const record = <T>(fields: Fields<T>): TypeCheck<T> => (value): value is T =>
  wrongField(fields, value) === undefined;

/** Returns a value that passes the check; undefined in place of any other. */
export function ifValid<T>(isValid: TypeCheck<T>): (value: unknown) => T | undefined {
  return (value) => isValid(value) ? value : undefined;
}

/** Returns the elements of a list that pass the check; undefined in place of a value that is no list. */
export function validElements<T>(isValid: TypeCheck<T>): (value: unknown) => readonly T[] | undefined {
  return (value) => Array.isArray(value) ? value.filter(isValid) : undefined;
}

/** Quotes a name, shortened so that an attacker cannot fill the log with it. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 40));
}

/** Whether a value is an integer from 0. */
export const isCount = integer(0, Number.MAX_SAFE_INTEGER);
/** Whether a value is the number of a TCP or UDP port. */
export const isPortNumber = integer(1, 65_535);
/** Whether a value has the characters of a prefix; the tools refuse such a text if it is none. */
export const isPrefix = text(/^[\da-f.:]{2,45}\/\d{1,3}$/);
/** Whether a value has the characters of `address:port`; the tools refuse such a text if it is none. */
export const isHostPort = text(/^(?:[\d.]{7,15}|\[[\da-f.:]{2,45}\]):\d{1,5}$/);
