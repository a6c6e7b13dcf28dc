import {
  type Alias,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
  type YAMLMap,
} from "yaml";
import { boolean, defaultsOf, type Field, type Fields, orDefault, type ScalarField, valueName } from "./fields.ts";
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

type Node = YAMLMap["items"][number]["value"];

/** What reading any part of a file needs: where it is, and where to say what. */
interface Reading {
  readonly where: (node: unknown) => string;
  readonly resolve: (node: Node) => Node;
  readonly origins: Map<string, string>;
  readonly errors: string[];
  /** What kube-proxy's lenient decoding lets pass: a warning, or an error under `--strict-config`. */
  readonly lenient: string[];
}

/**
 * Reads a KubeProxyConfiguration in YAML or JSON. `name` is what messages call the file. An unknown field and a field
 * that is set twice (the last one counts) are warnings, as kube-proxy falls back to lenient decoding for them, or
 * errors when `strict`; a value of the wrong type is always an error. As in kube-proxy, null stands for the default and
 * only the first document of a file counts. Never throws: everything that is wrong with the file is in `errors`.
 */
export function readConfigurationFile(name: string, content: string, strict: boolean): FileReading {
  const lines = new LineCounter();
  const documents = [...parseAllDocuments(content, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })];
  const line = (offset: number) => `${name}:${lines.linePos(offset).line}`;
  const settings = defaultSettings();
  const origins = new Map<string, string>();
  const [document, ...others] = documents;
  if (document === undefined) return { settings, origins, errors: [`${name}: the file is empty`], warnings: [] };
  if (document.errors.length > 0) {
    const errors = document.errors.map((error) => `${line(error.pos[0])}: not YAML: ${error.message}`);
    return { settings, origins, errors, warnings: [] };
  }
  const errors: string[] = [];
  const reading: Reading = {
    where: (node) => line(offsetOf(node)),
    resolve: (node) => {
      if (!isAlias(node)) return node;
      const target = (node as Alias).resolve(document);
      if (target === undefined) {
        errors.push(`${line(offsetOf(node))}: there is no anchor for the alias *${node.source}`);
      }
      return target;
    },
    origins,
    errors,
    lenient: [],
  };
  const root = document.contents;
  if (!isMap(root)) {
    return { settings, origins, errors: [`${name}: must be a ${KIND}, not ${describe(root)}`], warnings: [] };
  }
  readTypeMeta(reading, name, root as YAMLMap);
  readSection(reading, root as YAMLMap, FIELDS, "", settings);
  if (others.some((other) => other.contents !== null)) {
    reading.lenient.push(`${line(others[0]!.range[0])}: only the first document of the file is read`);
  }
  return {
    settings,
    origins,
    errors: strict ? [...errors, ...reading.lenient] : errors,
    warnings: strict ? [] : reading.lenient,
  };
}

/** A file of another kind or version is refused, as kube-proxy has no decoder for it. */
function readTypeMeta(reading: Reading, name: string, root: YAMLMap): void {
  for (const [key, expected] of [["apiVersion", API_VERSION], ["kind", KIND]] as const) {
    const node = root.get(key, true);
    if (node === undefined) {
      reading.errors.push(`${name}: ${key} is missing: must be ${expected}`);
    } else if (!isScalar(node) || node.value !== expected) {
      reading.errors.push(`${reading.where(node)}: ${key} is ${describe(node)}: must be ${expected}`);
    }
  }
}

function readSection(reading: Reading, map: YAMLMap, fields: Fields, path: string, values: object): void {
  const last = new Map(map.items.map((pair) => [keyOf(pair), pair]));
  const merged = mergedPairs(reading, map).filter((pair) => !last.has(keyOf(pair)));
  for (const pair of merged) last.set(keyOf(pair), pair);
  for (const pair of [...map.items.filter((pair) => keyOf(pair) !== MERGE), ...merged]) {
    const key = keyOf(pair);
    const keyPath = path === "" ? key : `${path}.${key}`;
    const where = reading.where(pair.key);
    if (last.get(key) !== pair) {
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
    const value = readField(reading, reading.resolve(pair.value), field, keyPath, target[key]);
    if (value !== undefined) target[valueName(key, field)] = value;
  }
}

const MERGE = "<<";

/** What a section takes over from others by YAML's merge key; what it sets itself goes before. */
function mergedPairs(reading: Reading, map: YAMLMap): YAMLMap["items"] {
  return map.items.filter((pair) => keyOf(pair) === MERGE).flatMap((pair) => {
    const from = reading.resolve(pair.value as Node);
    const sources = isSeq(from) ? from.items.map((item) => reading.resolve(item as Node)).reverse() : [from];
    return sources.flatMap((source) => isMap(source) ? (source as YAMLMap).items : []);
  });
}

/** The value of a field; undefined leaves the default, after an error where there was something to complain about. */
function readField(reading: Reading, node: Node, field: Field, path: string, current: unknown): unknown {
  if (node === null || node === undefined || isScalar(node) && node.value === null) return undefined;
  const refuse = (at: Node, what: string, must: string) => {
    reading.errors.push(`${reading.where(at)}: ${what} is ${describe(at)}: must be ${must}`);
    return undefined;
  };
  switch (field.kind) {
    case "section":
      if (!isMap(node)) return refuse(node, path, "a section with fields of its own");
      readSection(reading, node as YAMLMap, field.fields, path, current as object);
      return undefined;
    case "sections": {
      if (!isSeq(node)) return refuse(node, path, "a list");
      return node.items.map((item, i) => {
        const values = defaultsOf(field.fields);
        const resolved = reading.resolve(item as Node);
        if (isMap(resolved)) readSection(reading, resolved as YAMLMap, field.fields, `${path}[${i}]`, values);
        else refuse(resolved, `${path}[${i}]`, "a section with fields of its own");
        return values;
      });
    }
    case "texts": {
      if (!isSeq(node)) return refuse(node, path, "a list of texts");
      return node.items.flatMap((item, i) => {
        const resolved = reading.resolve(item as Node);
        reading.origins.set(`${path}[${i}]`, `${reading.where(resolved)}: ${path}[${i}]`);
        if (isScalar(resolved) && typeof resolved.value === "string") return [resolved.value];
        refuse(resolved, `${path}[${i}]`, "text");
        return [];
      });
    }
    case "switches": {
      if (!isMap(node)) return refuse(node, path, "names that are each true or false");
      return Object.fromEntries(node.items.flatMap((pair) => {
        const resolved = reading.resolve(pair.value as Node);
        const read = readScalar(boolean(), scalarOf(resolved));
        if ("value" in read) return [[keyOf(pair), read.value]];
        refuse(resolved, `${path}.${keyOf(pair)}`, read.must);
        return [];
      }));
    }
    default:
      return readScalarField(node, field, (must) => refuse(node, path, must));
  }
}

function readScalarField(node: Node, field: ScalarField, refuse: (must: string) => undefined): unknown {
  const read = readScalar(field, scalarOf(node));
  return "value" in read ? orDefault(field, read.value) : refuse(read.must);
}

function keyOf(pair: YAMLMap["items"][number]): string {
  return String(isScalar(pair.key) ? pair.key.value : pair.key);
}

function scalarOf(node: Node): unknown {
  return isScalar(node) ? node.value : node;
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

function offsetOf(node: unknown): number {
  if (isPair(node)) return offsetOf(node.key);
  const range = (node as { range?: [number, number, number] | null } | null)?.range;
  return range?.[0] ?? 0;
}

function describe(node: unknown): string {
  if (isMap(node)) return "a section";
  if (isSeq(node)) return "a list";
  if (isScalar(node)) return JSON.stringify(node.value) ?? String(node.value);
  return "empty";
}
