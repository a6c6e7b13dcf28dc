import type { Alias, Pair } from "yaml";
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments } from "./yaml_package.ts";

/** A value of a YAML or JSON file and its line, from 1. */
export type TreeNode =
  | { readonly kind: "map"; readonly line: number; readonly entries: readonly TreeEntry[] }
  | { readonly kind: "list"; readonly line: number; readonly items: readonly TreeNode[] }
  | {
    readonly kind: "scalar";
    readonly line: number;
    /** Null or undefined if the file gives none. */
    readonly value: unknown;
    /** The value's source text, if known. */
    readonly source?: string | undefined;
  };

/** An entry of a map, with the line of its key; a repeated key is two entries. */
export interface TreeEntry {
  readonly key: string;
  readonly line: number;
  readonly value: TreeNode;
}

/** A parsed file. */
export interface ParsedTree {
  /** The first document; undefined if the file is empty or malformed. */
  readonly root: TreeNode | undefined;
  /** The first line of a second, non-empty document. */
  readonly secondDocument?: number | undefined;
  readonly hasAliases: boolean;
  readonly errors: readonly { readonly line: number; readonly message: string }[];
}

interface TreeOptions {
  /** The file's line at which the text starts; 1 by default. */
  readonly line?: number;
  readonly uniqueKeys: boolean;
}

/** Whether a key is a merge key; a quoted `"<<"` is a key like any other. */
function isMerge({ key }: Pair): boolean {
  return isScalar(key) && key.value === "<<" && key.type === "PLAIN";
}

/**
 * Parses YAML, and resolves aliases and merge keys (`<<`). Aliases of the same anchor share its node, so that aliases of aliases
 * cost nothing. Never throws: problems are in `errors`.
 */
export function parseTree(text: string, { line: firstLine = 1, uniqueKeys }: TreeOptions): ParsedTree {
  const lines = new LineCounter();
  const lineAt = (offset: number) => firstLine - 1 + Math.max(1, lines.linePos(offset).line);
  const options = { lineCounter: lines, prettyErrors: false, logLevel: "silent", uniqueKeys } as const;
  const [document, ...others] = [...parseAllDocuments(text, options)];
  if (document === undefined) return { root: undefined, hasAliases: false, errors: [] };
  if (document.errors.length > 0) {
    const errors = document.errors.map(({ pos, message }) => ({
      line: lineAt(pos[0]),
      message: `not YAML: ${message}`,
    }));
    return { root: undefined, hasAliases: false, errors };
  }
  const errors: { line: number; message: string }[] = [];
  const converted = new Map<unknown, TreeNode>();
  // The nodes being converted: an alias to one of them is circular.
  const open = new Set<unknown>();
  let hasAliases = false;
  const lineOf = (node: unknown) => {
    const range = (node as { readonly range?: readonly [number, number, number] | null } | null)?.range;
    return lineAt(range?.[0] ?? 0);
  };

  const keyOf = ({ key }: Pair) => String(isScalar(key) ? key.value : key);
  const convert = (node: unknown, emptyAt: number): TreeNode => {
    const known = converted.get(node);
    if (known !== undefined) return known;
    if (isAlias(node)) return resolve(node);
    open.add(node);
    const result = convertNew(node, emptyAt);
    open.delete(node);
    if (node !== null && node !== undefined) converted.set(node, result);
    return result;
  };
  const convertNew = (node: unknown, emptyAt: number): TreeNode => {
    const line = node === null || node === undefined ? emptyAt : lineOf(node);
    if (isMap(node)) return { kind: "map", line, entries: entriesOf(node.items) };
    if (isSeq(node)) return { kind: "list", line, items: node.items.map((item) => convert(item, line)) };
    return isScalar(node)
      ? { kind: "scalar", line, value: node.value, source: node.source }
      : { kind: "scalar", line, value: undefined };
  };
  const resolve = (alias: Alias): TreeNode => {
    hasAliases = true;
    const line = lineOf(alias);
    const target = alias.resolve(document);
    if (target !== undefined && !open.has(target)) return convert(target, line);
    const message = target === undefined ? `unknown alias *${alias.source}` : `circular alias *${alias.source}`;
    errors.push({ line, message });
    return { kind: "scalar", line, value: undefined };
  };
  const entriesOf = (pairs: readonly Pair[]): readonly TreeEntry[] => {
    const own = pairs.filter((pair) => !isMerge(pair)).map((pair): TreeEntry => {
      const line = lineOf(pair.key);
      return { key: keyOf(pair), line, value: convert(pair.value, line) };
    });
    const keys = new Set(own.map(({ key }) => key));
    const merged = pairs.filter(isMerge).flatMap((pair) => {
      const from = convert(pair.value, lineOf(pair.key));
      // Of several maps, the first one with a key counts.
      const sources = from.kind === "list" ? from.items.toReversed() : [from];
      return sources.flatMap((source) => source.kind === "map" ? source.entries : []);
    });
    const byKey = new Map(merged.map((entry) => [entry.key, entry]));
    return [...own, ...byKey.values().filter(({ key }) => !keys.has(key))];
  };

  const root = convert(document.contents, firstLine);
  const hasMore = others.some(({ contents, errors }) => contents !== null || errors.length > 0);
  const secondDocument = hasMore ? lineAt(others[0]!.range[0]) : undefined;
  return { root, secondDocument, hasAliases, errors };
}
