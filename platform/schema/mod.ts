/**
 * The kinds of fields in a configuration file. One table (kube_proxy_configuration.ts) defines the type of the settings,
 * their defaults and limits, what the file may contain, what the flags set and what is written back.
 *
 *   duration.ts  Go's durations
 *
 * In: nothing. Out: descriptions of fields. May touch: nothing.
 */
import { formatDuration } from "./duration.ts";

export { formatDuration, parseDuration } from "./duration.ts";

/** A kind of field with a default. */
interface Kind<Name extends string, Value> {
  readonly kind: Name;
  readonly initial: Value;
}

/** A string; an empty one means the default. */
type TextField = Kind<"text", string>;

interface BooleanField extends Kind<"boolean", boolean> {
  /** Whether it is written only if it is true. */
  readonly isOmittedIfFalse?: true;
}

/** The least value of a number, or of a duration in milliseconds, and the greatest one if there is any. */
interface Limits {
  readonly from: number;
  readonly to?: number;
}

/** A number with limits. With `zeroStays`, 0 is a value; otherwise it means the default. */
interface LimitedField<Name extends string> extends Kind<Name, number>, Partial<Limits> {
  readonly zeroStays?: true;
}

type IntegerField = LimitedField<"integer">;

/** A number; 0 means the default. */
type NumberField = Kind<"number", number>;

/** A duration in Go's syntax, stored in milliseconds under the field's name with the suffix `Ms`. */
interface DurationField extends LimitedField<"duration"> {
  /** Whether a plain number is accepted as nanoseconds. */
  readonly nanoseconds?: true;
}

/** A Kubernetes quantity (`0`, `64Ki`), as text. */
type QuantityField = Kind<"quantity", string>;

/** A list of strings. */
export interface TextsField extends Kind<"texts", readonly string[]> {
  /** Whether the value of a flag is one string, which may contain commas. */
  readonly isWhole?: true;
}

/** A map of names to booleans. */
export type SwitchesField = Kind<"switches", Readonly<Record<string, boolean>>>;

interface Section<F extends Fields = Fields> {
  readonly kind: "section";
  readonly fields: F;
}

interface SectionsField<F extends Fields = Fields> {
  readonly kind: "sections";
  readonly fields: F;
}

/** A field with a single value. */
export type ScalarField = TextField | BooleanField | IntegerField | NumberField | DurationField | QuantityField;

/** Any field. */
export type Field = ScalarField | TextsField | SwitchesField | Section | SectionsField;

/** Fields by name, in the order in which they are written. */
export interface Fields {
  readonly [name: string]: Field;
}

/** The value of a field; a duration in milliseconds. */
export type ValueOf<F extends Field> = F extends Section<infer G> ? ValuesOf<G>
  : F extends SectionsField<infer G> ? ValuesOf<G>[]
  : F extends TextsField ? string[]
  : F extends SwitchesField ? Record<string, boolean>
  : F extends BooleanField ? boolean
  : F extends TextField | QuantityField ? string
  : number;

/** The values of fields, by name; durations in milliseconds under `…Ms`. */
export type ValuesOf<F extends Fields> = {
  [K in keyof F & string as F[K] extends DurationField ? `${K}Ms` : K]: ValueOf<F[K]>;
};

/** A value that nothing may change. */
export type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;

/** The values of fields once they are validated. */
export type OptionsOf<F extends Fields> = DeepReadonly<ValuesOf<F>>;

/** The dotted path of a field other than a section. */
export type PathOf<F extends Fields> = {
  [K in keyof F & string]: F[K] extends Section<infer G> ? `${K}.${PathOf<G>}` : K;
}[keyof F & string];

/** A string field. */
export const text = (initial = ""): TextField => ({ kind: "text", initial });
/** A boolean field. */
export const boolean = (initial = false): BooleanField => ({ kind: "boolean", initial });
/** A boolean field that is written only if it is true. */
export const booleanIfTrue = (): BooleanField => ({ ...boolean(), isOmittedIfFalse: true });
/** An integer for which 0 means the default. */
export const integer = (initial = 0, limits?: Limits): IntegerField => ({ kind: "integer", initial, ...limits });
/** A number. */
export const number = (initial: number): NumberField => ({ kind: "number", initial });
/** A duration in milliseconds, for which 0 means the default. */
export const duration = (initial = 0, limits?: Limits): DurationField => ({ kind: "duration", initial, ...limits });
/** A duration in milliseconds that may also be given as a number of nanoseconds. */
export const durationOrNanoseconds = (initial: number): DurationField => ({ ...duration(initial), nanoseconds: true });
/** The field, with 0 as a value. */
export const withZero = <F extends IntegerField | DurationField>(field: F): F => ({ ...field, zeroStays: true });
/** A quantity. */
export const quantity = (): QuantityField => ({ kind: "quantity", initial: "0" });
/** A list of strings. */
export const texts = (): TextsField => ({ kind: "texts", initial: [] });
/** A list of strings that may contain commas: a flag gives one, and is repeated for more. */
export const wholeTexts = (): TextsField => ({ kind: "texts", initial: [], isWhole: true });
/** A map of names to booleans. */
export const switches = (): SwitchesField => ({ kind: "switches", initial: {} });
/** A group of fields. */
export const section = <F extends Fields>(fields: F): Section<F> => ({ kind: "section", fields });
/** A list of sections. */
export const sections = <F extends Fields>(fields: F): SectionsField<F> => ({ kind: "sections", fields });

/** The name under which a field's value is stored. */
export function valueName(name: string, field: Field): string {
  return field.kind === "duration" ? `${name}Ms` : name;
}

/** The defaults of all fields, as new objects. */
export function defaultsOf<F extends Fields>(fields: F): ValuesOf<F> {
  const values: Record<string, unknown> = {};
  for (const [name, field] of Object.entries<Field>(fields)) values[valueName(name, field)] = defaultOf(field);
  return values as ValuesOf<F>;
}

function defaultOf(field: Field): unknown {
  if (field.kind === "section") return defaultsOf(field.fields);
  return field.kind === "sections" ? [] : structuredClone(field.initial);
}

/** The value, or the field's default if the value is empty and the field treats that as unset. */
export function orDefault(field: ScalarField, value: string | number | boolean): string | number | boolean {
  switch (field.kind) {
    case "text":
    case "quantity":
      return value === "" ? field.initial : value;
    case "number":
      return value === 0 ? field.initial : value;
    case "integer":
    case "duration":
      return value === 0 && !field.zeroStays ? field.initial : value;
    case "boolean":
      return value;
  }
}

/** Reports the numbers and durations that are not within their limits: the path, the value, and what it must be. */
export function checkLimits(
  fields: Fields,
  values: object,
  report: (path: string, value: number | string, must: string) => void,
  prefix = "",
): void {
  for (const [name, field] of Object.entries<Field>(fields)) {
    const value: unknown = (values as Record<string, unknown>)[valueName(name, field)], path = prefix + name;
    if (field.kind === "section") checkLimits(field.fields, value as object, report, `${path}.`);
    else if (field.kind === "sections") {
      (value as object[]).forEach((item, i) => checkLimits(field.fields, item, report, `${path}[${i}].`));
    } else if (field.kind === "integer" || field.kind === "duration") {
      const { from = -Infinity, to = Infinity } = field, number = value as number;
      if (number >= from && number <= to) continue;
      const shown = field.kind === "integer" ? String : shortDuration;
      const must = to === Infinity ? `${shown(from)} or more` : `${shown(from)} to ${shown(to)}`;
      report(path, field.kind === "integer" ? number : formatDuration(number), `must be ${must}`);
    }
  }
}

/** A duration without zero units at its end: `5m`, `0`. */
function shortDuration(ms: number): string {
  return formatDuration(ms).replace(/(?<=m)0s$|(?<=^0)s$/, "");
}

/** A field with accessors for its value in settings. */
interface FieldPlace {
  readonly field: Field;
  get(values: object): unknown;
  set(values: object, value: unknown): void;
}

/** Resolves a dotted path; throws if there is no such field. */
export function fieldAt(fields: Fields, path: string): FieldPlace {
  const names = path.split(".");
  const last = names.pop()!;
  let at = fields;
  for (const name of names) {
    const inner = at[name];
    if (inner?.kind !== "section") throw new Error(`the configuration has no section ${path}`);
    at = inner.fields;
  }
  const field = at[last];
  if (field === undefined) throw new Error(`the configuration has no field ${path}`);
  const sectionIn = (values: object) => {
    let target = values as Record<string, unknown>;
    for (const name of names) target = target[name] as Record<string, unknown>;
    return target;
  };
  const key = valueName(last, field);
  return {
    field,
    get: (values) => sectionIn(values)[key],
    set: (values, value) => void (sectionIn(values)[key] = value),
  };
}
