import type { FileEntry, FileNode, ParsedFile } from "./file_node.ts";

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Reads a file that holds a JSON object; undefined for any other text, which may be YAML. */
export function parseJsonFile(text: string): ParsedFile | undefined {
  if (!/^\s*\{/.test(text)) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  return { root: nodesOf(text), errors: [] };
}

/** The values of a text that is known to be JSON. JSON.parse keeps neither lines nor fields that are set twice. */
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
      // The colon.
      next();
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
