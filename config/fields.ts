/**
 * The kinds of fields a configuration file has. A table of them (kube_proxy_configuration.ts) is at once the type of
 * the settings, their defaults, what the file's reader accepts, what the flags set and what is written back.
 */

/** A text; an empty one stands for the default. */
export interface TextField {
  readonly kind: "text";
  readonly initial: string;
}

/** True or false. */
export interface BooleanField {
  readonly kind: "boolean";
  readonly initial: boolean;
}

/** A whole number of 32 bits. `zeroStays` tells the fields where 0 is a value from those where it asks for the default. */
export interface IntegerField {
  readonly kind: "integer";
  readonly initial: number;
  readonly zeroStays: boolean;
}

/** A number; 0 stands for the default. */
export interface NumberField {
  readonly kind: "number";
  readonly initial: number;
}

/** A duration in Go's syntax, kept in milliseconds under the field's name with `Ms` at its end. */
export interface DurationField {
  readonly kind: "duration";
  readonly initial: number;
  readonly zeroStays: boolean;
  /** Whether a bare number is taken for nanoseconds. */
  readonly nanoseconds: boolean;
}

/** A Kubernetes quantity (`0`, `64Ki`), as text. */
export interface QuantityField {
  readonly kind: "quantity";
  readonly initial: string;
}

/** A list of texts. */
export interface TextsField {
  readonly kind: "texts";
  readonly initial: readonly string[];
}

/** Names that are each true or false. */
export interface SwitchesField {
  readonly kind: "switches";
  readonly initial: Readonly<Record<string, boolean>>;
}

/** Fields under a name of their own. */
export interface Section<F extends Fields = Fields> {
  readonly kind: "section";
  readonly fields: F;
}

/** A list of sections. */
export interface SectionsField<F extends Fields = Fields> {
  readonly kind: "sections";
  readonly fields: F;
}

/** A field that holds one value. */
export type ScalarField = TextField | BooleanField | IntegerField | NumberField | DurationField | QuantityField;

/** Any field. */
export type Field = ScalarField | TextsField | SwitchesField | Section | SectionsField;

/** Fields by name, in the order in which they are written. */
export interface Fields {
  readonly [name: string]: Field;
}

type ValueOf<F extends Field> = F extends Section<infer G> ? ValuesOf<G>
  : F extends SectionsField<infer G> ? ValuesOf<G>[]
  : F extends TextsField ? string[]
  : F extends SwitchesField ? Record<string, boolean>
  : F extends BooleanField ? boolean
  : F extends TextField | QuantityField ? string
  : number;

/** The values of fields, under their names; durations under `…Ms`, in milliseconds. */
export type ValuesOf<F extends Fields> = {
  [K in keyof F & string as F[K] extends DurationField ? `${K}Ms` : K]: ValueOf<F[K]>;
};

/** The dotted path of any field that is not itself a section. */
export type PathOf<F extends Fields> = {
  [K in keyof F & string]: F[K] extends Section<infer G> ? `${K}.${PathOf<G>}` : K;
}[keyof F & string];

/** A text field. */
export const text = (initial = ""): TextField => ({ kind: "text", initial });
/** A field that is true or false. */
export const boolean = (initial = false): BooleanField => ({ kind: "boolean", initial });
/** A whole number for which 0 asks for the default. */
export const integer = (initial = 0): IntegerField => ({ kind: "integer", initial, zeroStays: false });
/** A whole number for which 0 is a value like any other. */
export const integerOrZero = (initial: number): IntegerField => ({ kind: "integer", initial, zeroStays: true });
/** A number. */
export const number = (initial: number): NumberField => ({ kind: "number", initial });
/** A duration for which 0 asks for the default; milliseconds. */
export const duration = (initial = 0): DurationField => ({
  kind: "duration",
  initial,
  zeroStays: false,
  nanoseconds: false,
});
/** A duration for which 0 is a value like any other; milliseconds. */
export const durationOrZero = (initial: number): DurationField => ({ ...duration(initial), zeroStays: true });
/** A duration that may also be given as a number of nanoseconds; milliseconds. */
export const durationOrNanoseconds = (initial: number): DurationField => ({ ...duration(initial), nanoseconds: true });
/** A quantity. */
export const quantity = (): QuantityField => ({ kind: "quantity", initial: "0" });
/** A list of texts. */
export const texts = (): TextsField => ({ kind: "texts", initial: [] });
/** Names that are true or false. */
export const switches = (): SwitchesField => ({ kind: "switches", initial: {} });
/** Fields under a name. */
export const section = <F extends Fields>(fields: F): Section<F> => ({ kind: "section", fields });
/** A list of sections. */
export const sections = <F extends Fields>(fields: F): SectionsField<F> => ({ kind: "sections", fields });

/** The name under which a field's value is kept. */
export function valueName(name: string, field: Field): string {
  return field.kind === "duration" ? `${name}Ms` : name;
}

/** Every field's default, in objects of their own. */
export function defaultsOf<F extends Fields>(fields: F): ValuesOf<F> {
  const values: Record<string, unknown> = {};
  for (const [name, field] of Object.entries<Field>(fields)) values[valueName(name, field)] = defaultOf(field);
  return values as ValuesOf<F>;
}

function defaultOf(field: Field): unknown {
  if (field.kind === "section") return defaultsOf(field.fields);
  return field.kind === "sections" ? [] : structuredClone(field.initial);
}

/** The value that stands for `value`: the field's default where the field takes an empty value for "not given". */
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

/** A field, and its value in settings. */
export interface FieldPlace {
  readonly field: Field;
  get(values: object): unknown;
  set(values: object, value: unknown): void;
}

/** Where a dotted path leads. Throws for a path that leads nowhere. */
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
