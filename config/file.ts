import { boolean, defaultsOf, type Field, type Fields, orDefault, type ScalarField, valueName } from "./fields.ts";
import type { FileEntry, FileNode, ParseFile } from "./file_node.ts";
import { parseJsonFile } from "./json_file.ts";
import { API_VERSION, defaultSettings, FIELDS, KIND, type Settings } from "./kube_proxy_configuration.ts";
import { nearest, suggestion } from "./nearest.ts";
import { readScalar } from "./scalar.ts";

/** What a configuration file says. */
export interface FileReading {
  /** Every field, with its default where the file says nothing or something unusable. */
  readonly settings: Settings;
  /** For each field that the file sets, by dotted path: `FILE:LINE: path`, to begin a message with. */
  readonly origins: ReadonlyMap<string, string>;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** What reading any part of a file needs: where it is, and where to say what. */
interface Reading {
  /** A line of the file, to begin a message with. */
  readonly at: (line: number) => string;
  readonly origins: Map<string, string>;
  readonly errors: string[];
  /** What kube-proxy's lenient decoding lets pass: a warning, or an error under `--strict-config`. */
  readonly lenient: string[];
}

/**
 * Reads a KubeProxyConfiguration in JSON, or in YAML with `parseYaml`; undefined where that is needed but not given.
 * `name` is what messages call the file. An unknown field and a field that is set twice (the last one counts) are warnings,
 * as kube-proxy falls back to lenient decoding for them, or errors when `strict`; a value of the wrong type is always an
 * error. As in kube-proxy, null stands for the default and only the first document of a file counts. Never throws:
 * everything that is wrong with the file is in `errors`.
 */
export function readConfigurationFile(
  name: string,
  content: string,
  strict: boolean,
  parseYaml: ParseFile | undefined,
): FileReading | undefined {
  const parsed = parseJsonFile(content) ?? parseYaml?.(content);
  if (parsed === undefined) return undefined;
  const { root, secondDocument } = parsed;
  const at = (line: number) => `${name}:${line}`;
  const settings = defaultSettings();
  const origins = new Map<string, string>();
  const errors = parsed.errors.map(({ line, message }) => `${at(line)}: ${message}`);
  if (root === undefined) {
    return { settings, origins, errors: errors.length > 0 ? errors : [`${name}: the file is empty`], warnings: [] };
  }
  const reading: Reading = { at, origins, errors, lenient: [] };
  if (root.kind !== "section") {
    return { settings, origins, errors: [`${name}: must be a ${KIND}, not ${describe(root)}`], warnings: [] };
  }
  readTypeMeta(reading, name, root.entries);
  readSection(reading, root.entries, FIELDS, "", settings);
  if (secondDocument !== undefined) {
    reading.lenient.push(`${at(secondDocument)}: only the first document of the file is read`);
  }
  return {
    settings,
    origins,
    errors: strict ? [...errors, ...reading.lenient] : errors,
    warnings: strict ? [] : reading.lenient,
  };
}

/** A file of another kind or version is refused, as kube-proxy has no decoder for it. */
function readTypeMeta(reading: Reading, name: string, root: readonly FileEntry[]): void {
  for (const [key, expected] of [["apiVersion", API_VERSION], ["kind", KIND]] as const) {
    const node = root.find((entry) => entry.key === key)?.value;
    if (node === undefined) {
      reading.errors.push(`${name}: ${key} is missing: must be ${expected}`);
    } else if (node.kind !== "scalar" || node.value !== expected) {
      reading.errors.push(`${reading.at(node.line)}: ${key} is ${describe(node)}: must be ${expected}`);
    }
  }
}

function readSection(
  reading: Reading,
  entries: readonly FileEntry[],
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
      reading.lenient.push(`${where}: unknown field ${keyPath}${meantBy(key, fields)}`);
      continue;
    }
    reading.origins.set(keyPath, `${where}: ${keyPath}`);
    const target = values as Record<string, unknown>;
    const value = readField(reading, entry.value, field, keyPath, target[key]);
    if (value !== undefined) target[valueName(key, field)] = value;
  }
}

/** The value of a field; undefined leaves the default, after an error where there was something to complain about. */
function readField(reading: Reading, node: FileNode, field: Field, path: string, current: unknown): unknown {
  if (isNothing(node)) return undefined;
  const refuse = (at: FileNode, what: string, must: string) => {
    reading.errors.push(`${reading.at(at.line)}: ${what} is ${describe(at)}: must be ${must}`);
    return undefined;
  };
  switch (field.kind) {
    case "section":
      if (node.kind !== "section") return refuse(node, path, "a section with fields of its own");
      readSection(reading, node.entries, field.fields, path, current as object);
      return undefined;
    case "sections":
      if (node.kind !== "list") return refuse(node, path, "a list");
      return node.items.map((item, i) => {
        const values = defaultsOf(field.fields);
        if (item.kind === "section") readSection(reading, item.entries, field.fields, `${path}[${i}]`, values);
        else refuse(item, `${path}[${i}]`, "a section with fields of its own");
        return values;
      });
    case "texts":
      if (node.kind !== "list") return refuse(node, path, "a list of texts");
      return node.items.flatMap((item, i) => {
        reading.origins.set(`${path}[${i}]`, `${reading.at(item.line)}: ${path}[${i}]`);
        if (item.kind === "scalar" && typeof item.value === "string") return [item.value];
        refuse(item, `${path}[${i}]`, "text");
        return [];
      });
    case "switches":
      if (node.kind !== "section") return refuse(node, path, "names that are each true or false");
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

function readScalarField(node: FileNode, field: ScalarField, refuse: (must: string) => undefined): unknown {
  const read = readScalar(field, scalarOf(node));
  return "value" in read ? orDefault(field, read.value) : refuse(read.must);
}

function isNothing(node: FileNode): boolean {
  return node.kind === "scalar" && (node.value === null || node.value === undefined);
}

/** A scalar's value; for anything else the node itself, which no field takes. */
function scalarOf(node: FileNode): unknown {
  return node.kind === "scalar" ? node.value : node;
}

/** The name that was most probably meant: one of this section's, or the path of a field that belongs elsewhere. */
function meantBy(key: string, fields: Fields): string {
  if (nearest(key, Object.keys(fields)) !== undefined) return suggestion(key, Object.keys(fields));
  const elsewhere = new Map(pathsOf(FIELDS).map((path) => [path.slice(path.lastIndexOf(".") + 1), path]));
  const name = nearest(key, elsewhere.keys());
  return name === undefined ? "" : `; did you mean ${elsewhere.get(name)}?`;
}

/** Every field's path; later ones come first, so that iptables, which most mean, is the last of its like. */
function pathsOf(fields: Fields, prefix = ""): string[] {
  return Object.entries<Field>(fields).reverse().flatMap(([name, field]) =>
    field.kind === "section"
      ? [`${prefix}${name}`, ...pathsOf(field.fields, `${prefix}${name}.`)]
      : [`${prefix}${name}`]
  );
}

function describe(node: FileNode): string {
  if (node.kind === "section") return "a section";
  if (node.kind === "list") return "a list";
  return node.value === undefined ? "empty" : JSON.stringify(node.value) ?? String(node.value);
}
