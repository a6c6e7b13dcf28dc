/**
 * Messages in the format of KPNG's state files: fields have their Go names in lower case. Sluice's own fields are not written,
 * because KPNG refuses unknown ones.
 */
import type { Field, Fields, FieldShape, Schema } from "./schema.ts";

/** Sluice's own fields have numbers from here on. */
const OWN_FROM = 1001;

/** The fields that a state file can have, by their names in the file. */
export function writtenFields(
  schema: Schema,
): ReadonlyMap<string, { readonly name: string; readonly field: Field<unknown> }> {
  const known = byLowerCase.get(schema.fields);
  if (known !== undefined) return known;
  const fields = new Map(
    Object.entries(schema.fields)
      .filter(([, { number }]) => number < OWN_FROM)
      .map(([name, field]) => [name.toLowerCase(), { name, field }]),
  );
  byLowerCase.set(schema.fields, fields);
  return fields;
}

const byLowerCase = new WeakMap<Fields, ReturnType<typeof writtenFields>>();

/** Converts a message to plain data with lower-case names; default values are omitted. */
export function inLowerCase(schema: Schema, message: object): Record<string, unknown> {
  const written: Record<string, unknown> = {};
  for (const [lowerCase, { name, field }] of writtenFields(schema)) {
    const value = (message as Record<string, unknown>)[name];
    if (!isAbsence(field.shape, value)) written[lowerCase] = valueInLowerCase(field.shape, value);
  }
  return written;
}

function valueInLowerCase(shape: FieldShape, value: unknown): unknown {
  if (shape.kind === "message") return inLowerCase(shape.message, value as object);
  if (shape.kind === "list") return (value as readonly unknown[]).map((item) => valueInLowerCase(shape.of, item));
  return value;
}

function isAbsence({ kind }: FieldShape, value: unknown): boolean {
  if (value === undefined || value === "" || value === 0 || value === 0n || value === false) return true;
  return Array.isArray(value) ? value.length === 0 : kind === "map" && Object.keys(value as object).length === 0;
}
