import type { Alias, Node, Pair } from "yaml";
import { loadYaml, type Yaml } from "../platform/mod.ts";
import type { FileEntry, FileNode, ParsedFile, ParseFile } from "./file.ts";

const MERGE = "<<";

/** Loads the parser of YAML configuration files, which resolves aliases and merge keys (`<<`). */
export async function loadYamlParser(): Promise<ParseFile> {
  const yaml = await loadYaml();
  return (text) => parseYamlFile(yaml, text);
}

function parseYamlFile(
  { isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments }: Yaml,
  text: string,
): ParsedFile {
  const lines = new LineCounter();
  const lineAt = (offset: number) => lines.linePos(offset).line;
  const [document, ...others] = [
    ...parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false }),
  ];
  if (document === undefined) return { root: undefined, errors: [] };
  if (document.errors.length > 0) {
    const errors = document.errors.map(({ pos, message }) => ({
      line: lineAt(pos[0]),
      message: `not YAML: ${message}`,
    }));
    return { root: undefined, errors };
  }
  const errors: { line: number; message: string }[] = [];
  const converted = new Map<unknown, FileNode>();
  // The nodes being converted: an alias to one of them is circular.
  const open = new Set<unknown>();
  const lineOf = (node: unknown) => {
    const range = (node as { readonly range?: readonly [number, number, number] | null } | null)?.range;
    return lineAt(range?.[0] ?? 0);
  };

  const keyOf = ({ key }: Pair) => String(isScalar(key) ? key.value : key);
  const convert = (node: unknown, emptyAt: number): FileNode => {
    const known = converted.get(node);
    if (known !== undefined) return known;
    if (isAlias(node)) return resolve(node);
    open.add(node);
    const result = convertNew(node, emptyAt);
    open.delete(node);
    if (node !== null && node !== undefined) converted.set(node, result);
    return result;
  };
  const convertNew = (node: unknown, emptyAt: number): FileNode => {
    const line = node === null || node === undefined ? emptyAt : lineOf(node);
    if (isMap(node)) return { kind: "section", line, entries: entriesOf(node.items) };
    if (isSeq(node)) return { kind: "list", line, items: node.items.map((item) => convert(item, line)) };
    return { kind: "scalar", line, value: isScalar(node) ? node.value : undefined };
  };
  const resolve = (alias: Alias): FileNode => {
    const line = lineOf(alias);
    const target: Node | undefined = alias.resolve(document);
    if (target !== undefined && !open.has(target)) return convert(target, line);
    const message = target === undefined ? `unknown alias *${alias.source}` : `circular alias *${alias.source}`;
    errors.push({ line, message });
    return { kind: "scalar", line, value: undefined };
  };
  const entriesOf = (pairs: readonly Pair[]): readonly FileEntry[] => {
    const own = pairs.filter((pair) => keyOf(pair) !== MERGE).map((pair): FileEntry => {
      const line = lineOf(pair.key);
      return { key: keyOf(pair), line, value: convert(pair.value, line) };
    });
    const keys = new Set(own.map(({ key }) => key));
    const merged = pairs.filter((pair) => keyOf(pair) === MERGE).flatMap((pair) => {
      const from = convert(pair.value, lineOf(pair.key));
      const sources = from.kind === "list" ? from.items.toReversed() : [from];
      return sources.flatMap((source) => source.kind === "section" ? source.entries : []);
    });
    return [...own, ...merged.filter(({ key }) => !keys.has(key))];
  };

  const root = convert(document.contents, 1);
  const hasMore = others.some((other) => other.contents !== null);
  const secondDocument = hasMore ? lineAt(others[0]!.range[0]) : undefined;
  return { root, secondDocument, errors };
}
