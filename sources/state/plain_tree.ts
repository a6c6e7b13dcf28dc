/**
 * A line parser for the YAML subset of nearly all state files: block mappings, lists of single-line scalars, as Go's YAML
 * packages write them, and compact JSON, as Sluice does. It is twenty times faster than a full parser.
 */
import type { StateEntry, StateNode } from "./tree.ts";

/** The characters of this subset. */
const FORM = /^[\x20-\x7e\n]*$/;
const LINE = /^( *)(- )?(?:([A-Za-z0-9_][A-Za-z0-9_./-]{0,127}):(?: |$))?(.*)$/;
/** Unquoted text without another meaning in YAML: no indicators, and colons only inside words. */
const WORDS = /^[A-Za-z0-9_/][A-Za-z0-9_./@+=()-]*(?:(?: |:+)[A-Za-z0-9_./@+=()-]+)*$/;
const WHOLE_NUMBER = /^(?:0|[1-9][0-9]{0,19})$/;
/** Words that YAML reads as null, true or false, in any case. */
const CONSTANT = /^(?:null|true|false)$/i;

interface Line {
  readonly number: number;
  /** The indent of the dash, or of the key or value if there is no dash. */
  indent: number;
  dash: boolean;
  readonly key: string | undefined;
  readonly rest: string;
}

/** Thrown if the text is not in this subset; caught here. */
class NotPlain extends Error {}

/**
 * Parses a text of this subset to the same tree as `parseYamlTree`; undefined for other texts and errors. `line` is the file's
 * line at which the text starts.
 */
export function parsePlainTree(text: string, line: number): StateNode | undefined {
  if (!FORM.test(text)) return undefined;
  try {
    const lines = linesOf(text, line);
    if (lines.length === 0) return undefined;
    const reader = { lines, at: 0 };
    const tree = readBlock(reader);
    return reader.at === lines.length ? tree : undefined;
  } catch (error) {
    if (error instanceof NotPlain) return undefined;
    throw error;
  }
}

function linesOf(text: string, first: number): Line[] {
  const lines: Line[] = [];
  let number = first;
  for (const part of text.split("\n")) {
    if (part !== "") {
      const [, spaces, dash, key, rest] = LINE.exec(part)!;
      lines.push({ number, indent: spaces!.length, dash: dash !== undefined, key, rest: rest! });
    }
    number++;
  }
  return lines;
}

interface Reader {
  readonly lines: readonly Line[];
  at: number;
}

function readBlock(reader: Reader): StateNode {
  return reader.lines[reader.at]!.dash ? readList(reader) : readMap(reader);
}

function readList(reader: Reader): StateNode {
  const { number, indent } = reader.lines[reader.at]!;
  const items: StateNode[] = [];
  for (let line; (line = reader.lines[reader.at]) !== undefined && line.indent === indent && line.dash;) {
    if (line.key === undefined) {
      items.push(readScalar(line));
      reader.at++;
    } else {
      // A mapping that starts on the line of its dash has the indent of its first key.
      line.dash = false;
      line.indent += 2;
      items.push(readMap(reader));
    }
  }
  requireEnd(reader, indent);
  return { kind: "list", line: number, items };
}

function readMap(reader: Reader): StateNode {
  const { number, indent } = reader.lines[reader.at]!;
  const entries: StateEntry[] = [];
  const keys = new Set<string>();
  for (let line; (line = reader.lines[reader.at]) !== undefined && line.indent === indent && !line.dash;) {
    const { key } = line;
    if (key === undefined || keys.has(key) || !isText(key)) throw new NotPlain();
    keys.add(key);
    entries.push({ key, line: line.number, value: readValue(reader, line) });
  }
  requireEnd(reader, indent);
  return { kind: "map", line: number, entries };
}

/** Deeper lines without a key continue a multi-line value or are an error. */
function requireEnd({ lines, at }: Reader, indent: number): void {
  const next = lines[at];
  if (next !== undefined && next.indent > indent) throw new NotPlain();
}

function readValue(reader: Reader, line: Line): StateNode {
  reader.at++;
  if (line.rest !== "") return readScalar(line);
  const next = reader.lines[reader.at];
  const isNested = next !== undefined && (next.indent > line.indent || (next.indent === line.indent && next.dash));
  return isNested ? readBlock(reader) : { kind: "scalar", line: line.number, value: null, source: "" };
}

function readScalar({ rest, number: line }: Line): StateNode {
  const scalar = (value: unknown): StateNode => ({ kind: "scalar", line, value, source: rest });
  if (rest === "null") return scalar(null);
  if (rest === "true" || rest === "false") return scalar(rest === "true");
  if (WHOLE_NUMBER.test(rest)) return scalar(Number(rest));
  if (rest.startsWith('"') || rest.startsWith("{") || rest.startsWith("[")) return readJson(rest, line);
  if (/^'[^']*'$/.test(rest)) return scalar(rest.slice(1, -1));
  if (!WORDS.test(rest) || !isText(rest)) throw new NotPlain();
  return scalar(rest);
}

/** Whether YAML reads the words as a string, not as a number or constant. */
function isText(words: string): boolean {
  return !CONSTANT.test(words) && (!/^[0-9]/.test(words) || Number.isNaN(Number(words)));
}

/** Reads compact JSON without duplicate keys or numbers beyond JavaScript's range. */
function readJson(text: string, line: number): StateNode {
  try {
    const value: unknown = JSON.parse(text);
    if (JSON.stringify(value) === text) return treeOfJson(value, line);
  } catch (error) {
    // Not JSON, or nested too deep.
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
  }
  throw new NotPlain();
}

function treeOfJson(value: unknown, line: number): StateNode {
  if (Array.isArray(value)) return { kind: "list", line, items: value.map((item) => treeOfJson(item, line)) };
  if (typeof value !== "object" || value === null) return { kind: "scalar", line, value, source: String(value) };
  const entries = Object.entries(value).map(([key, value]) => ({ key, line, value: treeOfJson(value, line) }));
  return { kind: "map", line, entries };
}
