import { type loadYaml, nearest, suggestion, type TreeEntry, type TreeNode } from "../platform/mod.ts";
import {
  boolean,
  defaultsOf,
  type Field,
  type Fields,
  orDefault,
  type ScalarField,
  valueName,
} from "../platform/schema/mod.ts";
import { API_VERSION, defaultSettings, FIELDS, KIND, type Settings } from "./kube_proxy_configuration.ts";
import { readScalar } from "./scalar.ts";

/** The parser of YAML, and so of JSON; loaded only if there is a file. */
export type ParseYaml = Awaited<ReturnType<typeof loadYaml>>["parseTree"];

/** The contents of a configuration file. */
interface FileReading {
  /** Every field, with its default if the file does not set it or sets it wrongly. */
  readonly settings: Settings;
  /** The start of a message about each field that the file sets, by dotted path: `FILE:LINE: path`. */
  readonly origins: ReadonlyMap<string, string>;
  readonly forms: GivenForms;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/**
 * The values that kube-proxy shows as they were given, by dotted path, where decisions or settings have them in one form: lists
 * of prefixes, empty lists, and durations in nanoseconds.
 */
export type GivenForms = Readonly<Record<string, unknown>>;

interface Reading {
  /** The start of a message about a line: `FILE:LINE`. */
  readonly at: (line: number) => string;
  readonly origins: Map<string, string>;
  readonly forms: Record<string, unknown>;
  readonly errors: string[];
  /** Problems that kube-proxy's lenient decoding accepts: warnings, or errors with `--strict-config`. */
  readonly lenient: string[];
}

/** The characters that end a line, and so a comment, for kube-proxy only. */
const LINE_ENDS_OF_YAML_1_1 = /[\u0085\u2028\u2029]/g;

/**
 * Reads a KubeProxyConfiguration in YAML or JSON. `name` is the file's name in messages. Unknown and repeated fields (the last
 * one counts) are warnings, because kube-proxy falls back to lenient decoding for them, or errors if `strict`; a value of the
 * wrong type is always an error. As in kube-proxy, null means the default and only the first document of a file counts. Never
 * throws: problems are in `errors`.
 */
export function readConfigurationFile(
  name: string,
  content: string,
  strict: boolean,
  parseYaml: ParseYaml,
): FileReading {
  const parsed = parseYaml(content.replace(LINE_ENDS_OF_YAML_1_1, "\n"), { uniqueKeys: false });
  const [root, second] = parsed.documents;
  const at = (line: number) => `${name}:${line}`;
  const errors = parsed.errors.map(({ line, message }) => `${at(line)}: ${message}`);
  const reading: Reading = { at, origins: new Map(), forms: {}, errors, lenient: [] };
  const settings = defaultSettings();
  if (root?.kind === "map") {
    readTypeMeta(reading, name, root.entries);
    readSection(reading, root.entries, FIELDS, "", settings);
    if (second !== undefined) {
      reading.lenient.push(`${at(second.line)}: only the first document of the file is read`);
    }
  } else if (root !== undefined) errors.push(`${name}: must be a ${KIND}, not ${describe(root)}`);
  else if (errors.length === 0) errors.push(`${name}: the file is empty`);
  const { origins, forms, lenient } = reading;
  return {
    settings,
    origins,
    forms,
    errors: strict ? [...errors, ...lenient] : errors,
    warnings: strict ? [] : lenient,
  };
}

/** Refuses a file of another kind or version, for which kube-proxy has no decoder either. */
function readTypeMeta(reading: Reading, name: string, root: readonly TreeEntry[]): void {
  for (const [key, expected] of [["apiVersion", API_VERSION], ["kind", KIND]] as const) {
    const node = root.find((entry) => entry.key === key)?.value;
    if (node === undefined) {
      reading.errors.push(`${name}: ${key} is missing: must be ${expected}`);
    } else if (node.kind !== "scalar" || node.value !== expected) {
      reading.errors.push(`${reading.at(node.line)}: ${key} is ${describe(node)}: must be ${expected}`);
    }
  }
}

/** Later problems of a file get no suggestion: each takes a millisecond, and a file may have any number of unknown fields. */
const MOST_SUGGESTIONS = 100;

function readSection(
  reading: Reading,
  entries: readonly TreeEntry[],
  fields: Fields,
  path: string,
  values: object,
): void {
  const last = new Map(entries.map((entry) => [entry.key, entry]));
  for (const entry of entries) {
    const { key } = entry;
    const keyPath = path === "" ? key : `${path}.${key}`;
    const where = reading.at(entry.line);
    if (last.get(key) !== entry) {
      reading.lenient.push(`${where}: ${keyPath} is set again below; the last one counts`);
      continue;
    }
    if (path === "" && (key === "apiVersion" || key === "kind")) continue;
    const field = Object.hasOwn(fields, key) ? fields[key] : undefined;
    if (field === undefined) {
      const meant = reading.lenient.length < MOST_SUGGESTIONS ? meantBy(key, fields) : "";
      reading.lenient.push(`${where}: unknown field ${keyPath}${meant}`);
      continue;
    }
    reading.origins.set(keyPath, `${where}: ${keyPath}`);
    const target = values as Record<string, unknown>;
    const value = readField(reading, entry.value, field, keyPath, target[key]);
    if (value !== undefined) target[valueName(key, field)] = value;
    if (value !== undefined && keepsForm(field, entry.value)) {
      reading.forms[keyPath] = field.kind === "texts" ? value : scalarOf(entry.value);
    }
  }
}

/** Whether kube-proxy shows a value as it was given: a list, or a duration in nanoseconds other than 0. */
function keepsForm(field: Field, node: TreeNode): boolean {
  if (field.kind === "texts") return true;
  return field.kind === "duration" && node.kind === "scalar" && typeof node.value === "number" && node.value !== 0;
}

/** The value of a field; undefined keeps the default, after an error if the value is invalid. */
function readField(reading: Reading, node: TreeNode, field: Field, path: string, current: unknown): unknown {
  if (node.kind === "scalar" && (node.value === null || node.value === undefined)) return undefined;
  const refuse = (at: TreeNode, what: string, must: string) => {
    reading.errors.push(`${reading.at(at.line)}: ${what} is ${describe(at)}: must be ${must}`);
    return undefined;
  };
  switch (field.kind) {
    case "section":
      if (node.kind !== "map") return refuse(node, path, "a section of fields");
      readSection(reading, node.entries, field.fields, path, current as object);
      return undefined;
    case "sections":
      if (node.kind !== "list") return refuse(node, path, "a list");
      return node.items.map((item, i) => {
        const values = defaultsOf(field.fields);
        if (item.kind === "map") readSection(reading, item.entries, field.fields, `${path}[${i}]`, values);
        else refuse(item, `${path}[${i}]`, "a section of fields");
        return values;
      });
    case "texts":
      if (node.kind !== "list") return refuse(node, path, "a list of strings");
      return node.items.flatMap((item, i) => {
        reading.origins.set(`${path}[${i}]`, `${reading.at(item.line)}: ${path}[${i}]`);
        if (item.kind === "scalar" && typeof item.value === "string") return [item.value];
        refuse(item, `${path}[${i}]`, "a string");
        return [];
      });
    case "switches":
      if (node.kind !== "map") return refuse(node, path, "a map of names to true or false");
      return Object.fromEntries(node.entries.flatMap(({ key, value }) => {
        const read = readScalar(boolean(), scalarOf(value));
        if ("value" in read) return [[key, read.value]];
        refuse(value, `${path}.${key}`, read.must);
        return [];
      }));
    default:
      return readScalarField(node, field, (must) => refuse(node, path, must));
  }
}

function readScalarField(node: TreeNode, field: ScalarField, refuse: (must: string) => undefined): unknown {
  const read = readScalar(field, scalarOf(node));
  return "value" in read ? orDefault(field, read.value) : refuse(read.must);
}

/** A scalar's value; otherwise the node itself, which no field accepts. */
function scalarOf(node: TreeNode): unknown {
  return node.kind === "scalar" ? node.value : node;
}

/** Suggests the most similar field of this section, or the path of one in another section. */
function meantBy(key: string, fields: Fields): string {
  if (nearest(key, Object.keys(fields)) !== undefined) return suggestion(key, Object.keys(fields));
  const elsewhere = new Map(pathsOf(FIELDS).map((path) => [path.slice(path.lastIndexOf(".") + 1), path]));
  const name = nearest(key, elsewhere.keys());
  return name === undefined ? "" : `; did you mean ${elsewhere.get(name)}?`;
}

/** The paths of all fields in reverse order: of equal names, section `iptables` is the most likely one. */
function pathsOf(fields: Fields, prefix = ""): string[] {
  return Object.entries<Field>(fields).reverse().flatMap(([name, field]) =>
    field.kind === "section"
      ? [`${prefix}${name}`, ...pathsOf(field.fields, `${prefix}${name}.`)]
      : [`${prefix}${name}`]
  );
}

function describe(node: TreeNode): string {
  if (node.kind === "map") return "a section";
  if (node.kind === "list") return "a list";
  return node.value === undefined ? "empty" : JSON.stringify(node.value) ?? String(node.value);
}
