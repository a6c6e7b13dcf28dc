/** Validates objects against the recorded schemas of Kubernetes' API, as strictly as `fieldValidation=Strict`. */
import { Ajv } from "ajv";
import { parseAllDocuments } from "yaml";
import { shapesOf } from "./api_shapes.ts";

/** An object of the API. */
export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata?: { readonly name?: string };
}

/** Returns the problems of an object: unknown or missing fields, and wrong types. */
export type Validate = (object: ApiObject) => readonly string[];

/** Returns the validation of a recorded version of Kubernetes. */
export function validationOf(version: string): Validate {
  const { kinds, definitions } = shapesOf(version);
  const ajv = new Ajv({ allErrors: true, strict: true, strictTypes: false, allowUnionTypes: true });
  ajv.addSchema({ $id: "kubernetes", $defs: definitions });
  return (object) => {
    const kind = `${object.apiVersion} ${object.kind}`;
    const name = kinds[kind];
    if (name === undefined) return [`${kind}: not in the recorded API of ${version}`];
    const validate = ajv.getSchema(`kubernetes#/$defs/${name}`)!;
    if (validate(object)) return [];
    return validate.errors!.map(({ instancePath, message, params }) =>
      `${kind} ${object.metadata?.name ?? ""}${instancePath}: ${message} ${JSON.stringify(params)}`
    );
  };
}

/** Returns the objects in a text of YAML documents; throws at a syntax error. */
export function objectsIn(text: string): readonly ApiObject[] {
  return parseAllDocuments(text, { merge: true }).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0]!;
    return document.toJS() as ApiObject | null ?? [];
  });
}
