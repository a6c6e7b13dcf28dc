import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node as YamlNode,
  parseDocument,
  visit,
  type YAMLMap,
} from "yaml";
import { type StateNode, StateSyntaxError } from "./document.ts";

/** A parsed piece of YAML. */
export interface YamlTree {
  readonly root: StateNode;
  /** Whether it has aliases, whose anchors may be outside the piece. */
  readonly hasAliases: boolean;
}

/**
 * Parses any YAML; `line` is the file's line at which the text starts. The tree is lazy, so that aliases of aliases cost
 * nothing. Throws StateSyntaxError for the first error.
 */
export function parseYamlTree(text: string, line: number): YamlTree {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "silent", merge: true });
  const lineAt = (offset: number) => line - 1 + Math.max(1, lines.linePos(offset).line);
  const lineOf = (node: unknown) => {
    const start = (node as YamlNode | null | undefined)?.range?.[0];
    return start === undefined ? 1 : lineAt(start);
  };
  const [error] = document.errors;
  if (error !== undefined) throw new StateSyntaxError(error.message, lineAt(error.pos[0]));

  const treeOf = (node: unknown): StateNode => {
    const line = lineOf(node);
    const resolved = isAlias(node) ? node.resolve(document) : node;
    if (isMap(resolved)) {
      const { items } = resolved as YAMLMap;
      return {
        kind: "map",
        line,
        get entries() {
          return items.filter(isPair).map(({ key, value }) => ({
            key: isScalar(key) ? String(key.value) : "",
            line: lineOf(key),
            value: treeOf(value),
          }));
        },
      };
    }
    if (isSeq(resolved)) {
      const { items } = resolved;
      return {
        kind: "list",
        line,
        get items() {
          return items.map(treeOf);
        },
      };
    }
    if (isScalar(resolved)) return { kind: "scalar", line, value: resolved.value, source: resolved.source };
    return { kind: "scalar", line, value: null, source: undefined };
  };

  let hasAliases = false;
  visit(document, {
    Alias() {
      hasAliases = true;
      return visit.BREAK;
    },
  });
  return { root: treeOf(document.contents), hasAliases };
}
