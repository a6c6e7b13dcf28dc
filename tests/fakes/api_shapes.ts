/** The recorded shapes of Kubernetes' API (build/api/record.ts): schemas by version, and objects made of them. */
import type { Definitions, Schema } from "../../build/api/schema.ts";

type Since<T> = readonly (readonly [version: string, value: T | null])[];

interface Recorded {
  readonly versions: readonly string[];
  readonly kinds: Readonly<Record<string, Since<string>>>;
  readonly enumerations: Readonly<Record<string, Since<readonly string[]>>>;
  readonly definitions: Readonly<Record<string, Since<Schema>>>;
}

const recorded: Recorded = JSON.parse(
  Deno.readTextFileSync(new URL("../fixtures/kubernetes/api.json", import.meta.url)),
);

/** The recorded minor versions of Kubernetes, oldest first. */
export const API_VERSIONS = recorded.versions;

/** The API of one version of Kubernetes. */
export interface ApiShapes {
  /** Names of the definitions of the kinds; a kind is named `v1 Service`. */
  readonly kinds: Readonly<Record<string, string>>;
  readonly definitions: Definitions;
  /** Values of the enumerated types of Go. */
  readonly enumerations: Readonly<Record<string, readonly string[]>>;
}

/** Returns the shapes of a recorded version. */
export function shapesOf(version: string): ApiShapes {
  return {
    kinds: inEffect(recorded.kinds, version),
    definitions: inEffect(recorded.definitions, version),
    enumerations: inEffect(recorded.enumerations, version),
  };
}

function inEffect<T>(record: Readonly<Record<string, Since<T>>>, version: string): Readonly<Record<string, T>> {
  const position = API_VERSIONS.indexOf(version);
  const found: Record<string, T> = {};
  for (const [name, entries] of Object.entries(record)) {
    const value = entries.findLast(([since]) => API_VERSIONS.indexOf(since) <= position)?.[1] ?? null;
    if (value !== null) found[name] = value;
  }
  return found;
}

/**
 * Returns an object with every field of a definition. `chosen` has values by path (`spec.ports[].name`), for a field or all
 * below it; other strings are "sample", numbers 1, booleans true.
 */
export function sampleOf(
  definitions: Definitions,
  name: string,
  chosen: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const sample = (schema: Schema, path: string): unknown => {
    if (Object.hasOwn(chosen, path)) return chosen[path];
    if (schema.$ref !== undefined) return sample(definitions[definitionName(schema.$ref)]!, path);
    const { type, properties, items, additionalProperties, oneOf } = schema;
    if (oneOf !== undefined) return sample(oneOf[0]!, path);
    if (properties !== undefined) {
      const below = path === "" ? "" : `${path}.`;
      return Object.fromEntries(
        Object.entries(properties).map(([field, one]) => [field, sample(one, `${below}${field}`)]),
      );
    }
    if (items !== undefined) return [sample(items, `${path}[]`)];
    if (typeof additionalProperties === "object") return { key: sample(additionalProperties, `${path}.*`) };
    return SAMPLES[type ?? "object"];
  };
  return sample(definitions[name]!, "") as Record<string, unknown>;
}

const SAMPLES: Readonly<Record<string, unknown>> = {
  string: "sample",
  integer: 1,
  number: 1,
  boolean: true,
  object: {},
};

/** Whether a definition has a field: `spec.ports[].name`, or `metadata.labels.*` for an entry of a map. */
export function hasField(definitions: Definitions, name: string, path: string): boolean {
  const steps = path.split(/\.|(?=\[\])/);
  let schema: Schema | undefined = definitions[name];
  for (const step of steps) {
    while (schema?.$ref !== undefined) schema = definitions[definitionName(schema.$ref)];
    if (schema === undefined) return false;
    if (step === "[]") schema = schema.items;
    else if (schema.properties !== undefined) schema = schema.properties[step];
    else schema = typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
  }
  return schema !== undefined;
}

function definitionName(reference: string): string {
  return reference.replace("#/$defs/", "");
}

/** Returns a view of JSON data that adds the path of every field that is read to `paths`; keys of labels are `*`. */
export function recordingReads<T>(data: T, paths: Set<string>, path = ""): T {
  if (typeof data !== "object" || data === null) return data;
  return new Proxy(data, {
    get(target, key) {
      const value = Reflect.get(target, key);
      if (typeof key === "symbol" || typeof value === "function") return value;
      if (Array.isArray(target)) return key === "length" ? value : recordingReads(value, paths, `${path}[]`);
      const step = /[./]/.test(key) ? "*" : key;
      const below = path === "" ? step : `${path}.${step}`;
      paths.add(below);
      return recordingReads(value, paths, below);
    },
  });
}
