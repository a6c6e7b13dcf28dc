/** The syntax tree of a configuration file, and the parser of JSON files. */

/** A value in a configuration file and its line, from 1. */
export type FileNode =
  | { readonly kind: "section"; readonly line: number; readonly entries: readonly FileEntry[] }
  | { readonly kind: "list"; readonly line: number; readonly items: readonly FileNode[] }
  /** `value` is undefined if the file gives none. */
  | { readonly kind: "scalar"; readonly line: number; readonly value: unknown };

/** A field of a section; a repeated field is two entries. */
export interface FileEntry {
  readonly key: string;
  readonly line: number;
  readonly value: FileNode;
}

/** A parsed configuration file. */
export interface ParsedFile {
  /** The first document; undefined if the file is empty or malformed. */
  readonly root: FileNode | undefined;
  /** The first line of a second, non-empty document. */
  readonly secondDocument?: number;
  readonly errors: readonly { readonly line: number; readonly message: string }[];
}

/** Parses a file in one format. */
export type ParseFile = (text: string) => ParsedFile;

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Parses a file that is a JSON object; undefined for any other text, which may be YAML. */
export function parseJsonFile(text: string): ParsedFile | undefined {
  if (!/^\s*\{/.test(text)) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  return { root: nodesOf(text), errors: [] };
}

/** Parses valid JSON with lines and repeated fields, which JSON.parse drops. */
function nodesOf(text: string): FileNode {
  const tokens = text.matchAll(TOKEN);
  let line = 1, counted = 0;
  const next = () => {
    const { 0: token, index } = tokens.next().value!;
    for (; counted < index; counted++) if (text[counted] === "\n") line++;
    return token;
  };
  const read = (token: string): FileNode => {
    const at = line;
    if (token === "{") return { kind: "section", line: at, entries: entries() };
    if (token === "[") return { kind: "list", line: at, items: items() };
    return { kind: "scalar", line: at, value: JSON.parse(token) };
  };
  const entries = () => {
    const found: FileEntry[] = [];
    for (let token = next(); token !== "}"; token = next()) {
      if (token === ",") continue;
      const key: string = JSON.parse(token), at = line;
      next(); // the colon
      found.push({ key, line: at, value: read(next()) });
    }
    return found;
  };
  const items = () => {
    const found: FileNode[] = [];
    for (let token = next(); token !== "]"; token = next()) if (token !== ",") found.push(read(token));
    return found;
  };
  return read(next());
}
