/** A JSON schema, reduced to the shape of the data: fields, types, required fields. */
export interface Schema {
  readonly type?: string;
  readonly $ref?: string;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly "x-kubernetes-int-or-string"?: boolean;
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
  readonly "x-kubernetes-group-version-kind"?: readonly {
    readonly group: string;
    readonly version: string;
    readonly kind: string;
  }[];
}

/** Schemas by name. */
export type Definitions = Readonly<Record<string, Schema>>;

const INT_OR_STRING: Schema = { oneOf: [{ type: "integer" }, { type: "string" }] };

/**
 * Returns a schema without descriptions, defaults and formats. Objects with properties permit no others, as the API server's
 * strict validation (`fieldValidation=Strict`), and references are written as in a JSON schema with `$defs`.
 */
export function reduced(schema: Schema): Schema {
  if (schema.allOf?.length === 1) return reduced(schema.allOf[0]!);
  if (schema.$ref !== undefined) return { $ref: schema.$ref.replace("#/components/schemas/", "#/$defs/") };
  if (schema["x-kubernetes-int-or-string"]) return INT_OR_STRING;
  const { type, required, properties, additionalProperties, items, oneOf } = schema;
  if (schema["x-kubernetes-preserve-unknown-fields"]) return { type };
  return {
    ...(type !== undefined && { type }),
    ...(schema.enum !== undefined && { enum: schema.enum }),
    ...(required !== undefined && { required }),
    ...(oneOf !== undefined && { oneOf: oneOf.map(reduced) }),
    ...(items !== undefined && { items: reduced(items) }),
    ...(additionalProperties !== undefined && {
      additionalProperties: typeof additionalProperties === "boolean"
        ? additionalProperties
        : reduced(additionalProperties),
    }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, reduced(one)])),
      ...(additionalProperties === undefined && { additionalProperties: false }),
    }),
  };
}

/** Names of the definitions that a schema refers to. */
export function referred(schema: Schema): readonly string[] {
  const names = [...JSON.stringify(schema).matchAll(/"\$ref":"#\/\$defs\/([^"]+)"/g)].map(([, name]) => name!);
  return [...new Set(names)];
}
