/**
 * The form in which state files are nearly always written, parsed by line: block mappings and lists of scalars on one
 * line, as Go's YAML packages write them, and compact JSON, as Sluice does. It is a hundredth of YAML, read at twenty
 * times the speed of a parser of all of it.
 */
import type { StateEntry, StateNode } from "./tree.ts";

/** Everything that the lines of this form can hold. */
const FORM = /^[\x20-\x7e\n]*$/;
const LINE = /^( *)(- )?(?:([A-Za-z0-9_][A-Za-z0-9_./-]{0,127}):(?: |$))?(.*)$/;
/** Text without quotes that has no other meaning in YAML: no indicators, and colons only within words. */
const WORDS = /^[A-Za-z0-9_/][A-Za-z0-9_./@+=()-]*(?:(?: |:+)[A-Za-z0-9_./@+=()-]+)*$/;
const WHOLE_NUMBER = /^(?:0|[1-9][0-9]{0,19})$/;
/** Words that YAML reads as null, true or false, however they are written. */
const CONSTANT = /^(?:null|true|false)$/i;

interface Line {
  readonly number: number;
  /** Of the dash, or where there is none of the key or value. */
  indent: number;
  dash: boolean;
  readonly key: string | undefined;
  readonly rest: string;
}

/** Thrown where the text has another form; caught here. */
class OtherForm extends Error {}

/**
 * The tree of a text that has this form, the same that `parseYamlTree` makes; undefined where it has another, or a mistake.
 * `line` is the file's line at which the text starts.
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
    if (error instanceof OtherForm) return undefined;
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
      // A mapping that starts on the line of its dash is indented as far as its first key.
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
    if (key === undefined || keys.has(key) || !isText(key)) throw new OtherForm();
    keys.add(key);
    entries.push({ key, line: line.number, value: readValue(reader, line) });
  }
  requireEnd(reader, indent);
  return { kind: "map", line: number, entries };
}

/** Deeper lines that belong to no key are the rest of a value of several lines, or a mistake. */
function requireEnd({ lines, at }: Reader, indent: number): void {
  const next = lines[at];
  if (next !== undefined && next.indent > indent) throw new OtherForm();
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
  if (!WORDS.test(rest) || !isText(rest)) throw new OtherForm();
  return scalar(rest);
}

/** Whether words are a text for YAML, and not a number in one of its forms or a constant. */
function isText(words: string): boolean {
  return !CONSTANT.test(words) && (!/^[0-9]/.test(words) || Number.isNaN(Number(words)));
}

/** JSON in its shortest form, which has no key twice and no number that JavaScript cannot hold. */
function readJson(text: string, line: number): StateNode {
  try {
    const value: unknown = JSON.parse(text);
    if (JSON.stringify(value) === text) return treeOfJson(value, line);
  } catch (error) {
    // Syntax that is none of JSON's, or is nested too deep to be followed.
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
  }
  throw new OtherForm();
}

function treeOfJson(value: unknown, line: number): StateNode {
  if (Array.isArray(value)) return { kind: "list", line, items: value.map((item) => treeOfJson(item, line)) };
  if (typeof value !== "object" || value === null) return { kind: "scalar", line, value, source: String(value) };
  const entries = Object.entries(value).map(([key, value]) => ({ key, line, value: treeOfJson(value, line) }));
  return { kind: "map", line, entries };
}
