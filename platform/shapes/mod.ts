/**
 * Declarations of plain data that crosses a border: to another isolate, or into a file. The declaration of an object gives
 * its TypeScript type (`TypeOf`), its check (`is`) and which texts its copies share in memory (`share`).
 *
 *     import * as shape from "../platform/shapes/mod.ts";
 *     const POINT = shape.record({ x: shape.integer(0, 9), name: shape.optional(shape.TEXT) });
 *     type Point = shape.TypeOf<typeof POINT>; // { readonly x: number; readonly name?: string }
 *
 * In: any value. Out: whether it is valid. May touch: nothing.
 */

/** The declaration of values of a type. */
export interface Shape<T> {
  /** Whether a value has this shape. */
  readonly is: (value: unknown) => value is T;
  /**
   * Replaces texts of a valid value, in place, by equal ones that all values share; returns the value. Absent if it has no
   * such texts.
   */
  share?(value: T): T;
}

/** The type of the values of a shape. */
export type TypeOf<S> = S extends Shape<infer T> ? T : never;

interface OptionalShape<T> extends Shape<T | undefined> {
  readonly isOptional: true;
}

/** The shapes of the fields of an object by name. */
type Fields = Readonly<Record<string, Shape<unknown>>>;

/** An object with these fields. */
type RecordOf<F extends Fields> =
  & { readonly [Name in keyof F as F[Name] extends OptionalShape<unknown> ? never : Name]: TypeOf<F[Name]> }
  & { readonly [Name in keyof F as F[Name] extends OptionalShape<unknown> ? Name : never]?: TypeOf<F[Name]> };

interface RecordShape<F extends Fields> extends Shape<RecordOf<F>> {
  readonly fields: F;
  /** Returns the name of the first invalid or unknown field, quoted; undefined if the value is valid. */
  wrongField(value: unknown): string | undefined;
}

/** Declares values by a check alone. */
export const satisfying = <T>(is: (value: unknown) => boolean): Shape<T> => ({ is: is as Shape<T>["is"] });

/** Declares one of these values. */
export function oneOf<const T>(...values: readonly T[]): Shape<T> {
  return {
    is: (value): value is T => values.includes(value as T),
    ...values.some((value) => typeof value === "string") && { share: (value) => values[values.indexOf(value)]! },
  };
}

/** Any text. */
export const TEXT: Shape<string> = satisfying((value) => typeof value === "string");
/** Declares a text that matches a pattern. */
export const text = (pattern: RegExp): Shape<string> =>
  satisfying((value) => typeof value === "string" && pattern.test(value));
/** Declares an integer of a range. */
export const integer = (least: number, greatest: number): Shape<number> =>
  satisfying((value) => Number.isInteger(value) && (value as number) >= least && (value as number) <= greatest);
/** An integer from 0. */
export const COUNT: Shape<number> = integer(0, Number.MAX_SAFE_INTEGER);
/** The number of a TCP, UDP or SCTP port. */
export const PORT_NUMBER: Shape<number> = integer(1, 65_535);
/** The number of a port, or 0 for none. */
export const PORT_NUMBER_OR_NONE: Shape<number> = integer(0, 65_535);
/** Any finite number. */
export const FINITE: Shape<number> = satisfying(Number.isFinite);
/** True or false. */
export const BOOLEAN: Shape<boolean> = satisfying((value) => typeof value === "boolean");
/** A port between isolates. */
export const MESSAGE_PORT: Shape<MessagePort> = satisfying((value) => value instanceof MessagePort);
/** The characters of an IP address; the tools refuse such a text if it is none. */
export const ADDRESS: Shape<string> = text(/^[\da-f.:]{2,45}$/);
/** The characters of a prefix; the tools refuse such a text if it is none. */
export const PREFIX: Shape<string> = text(/^[\da-f.:]{2,45}\/\d{1,3}$/);
/** The characters of `address:port`; the tools refuse such a text if it is none. */
export const HOST_PORT: Shape<string> = text(/^(?:[\d.]{7,15}|\[[\da-f.:]{2,45}\]):\d{1,5}$/);
/** Any value. */
export const ANYTHING: Shape<unknown> = satisfying(() => true);
/** No value: a call without a request. */
export const NOTHING: Shape<undefined> = satisfying((value) => value === undefined);

/** Declares a field that may be absent. */
export function optional<T>(shape: Shape<T>): OptionalShape<T> {
  return { ...orUndefined(shape), isOptional: true };
}

/** Declares a value that may be undefined. */
export function orUndefined<T>({ is, share }: Shape<T>): Shape<T | undefined> {
  return {
    is: (value): value is T | undefined => value === undefined || is(value),
    ...share && { share: (value) => value === undefined ? undefined : share(value) },
  };
}

/** Declares a list. */
export function list<T>({ is, share }: Shape<T>): Shape<readonly T[]> {
  return {
    is(value): value is readonly T[] {
      if (!Array.isArray(value)) return false;
      for (let i = 0; i < value.length; i++) if (!is(value[i])) return false;
      return true;
    },
    ...share && {
      share(values) {
        for (let i = 0; i < values.length; i++) (values as T[])[i] = share(values[i]!);
        return values;
      },
    },
  };
}

/** Declares a map from texts to values. */
export function mapOf<T>({ is }: Shape<T>): Shape<ReadonlyMap<string, T>> {
  return satisfying((value) =>
    value instanceof Map && value.entries().every(([key, one]) => typeof key === "string" && is(one))
  );
}

/** Declares a value of one of several shapes. */
export function anyOf<const S extends readonly Shape<unknown>[]>(...shapes: S): Shape<TypeOf<S[number]>> {
  return satisfying((value) => shapes.some(({ is }) => is(value)));
}

/** Declares an object with these fields and no others. */
export function record<const F extends Fields>(fields: F): RecordShape<F> {
  // Arrays of names and checks are faster than properties by name: a snapshot has tens of thousands of objects.
  const names = Object.keys(fields), known = new Set(names), checks = names.map((name) => fields[name]!.is);
  const shared = names.flatMap((name) => {
    const { share } = fields[name]!;
    return share ? [{ name, share: share as (value: unknown) => unknown }] : [];
  });
  const wrongField = (value: unknown): string | undefined => {
    if (typeof value !== "object" || value === null) return "(not an object)";
    const given = value as Readonly<Record<string, unknown>>;
    for (const name in given) if (!known.has(name)) return `${quoted(name)} (unknown)`;
    for (let i = 0; i < names.length; i++) if (!checks[i]!(given[names[i]!])) return quoted(names[i]!);
    return undefined;
  };
  return {
    fields,
    wrongField,
    is: (value): value is RecordOf<F> => wrongField(value) === undefined,
    ...shared.length > 0 && {
      share(value) {
        const fields = value as Record<string, unknown>;
        for (const { name, share } of shared) if (fields[name] !== undefined) fields[name] = share(fields[name]);
        return value;
      },
    },
  };
}

/** Returns a value of this shape; undefined in place of any other. */
export function ifValid<T>({ is }: Shape<T>): (value: unknown) => T | undefined {
  return (value) => is(value) ? value : undefined;
}

/** Returns the elements of a list that have this shape; undefined in place of a value that is no list. */
export function validElements<T>({ is }: Shape<T>): (value: unknown) => readonly T[] | undefined {
  return (value) => Array.isArray(value) ? value.filter(is) : undefined;
}

/** Quotes a name, shortened so that an attacker cannot fill the log with it. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 40));
}
