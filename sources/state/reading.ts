import { readItem, readState, type Section, StateError, type StateItem, StateSyntaxError } from "./document.ts";
import { countLines, loadTreeParser, type TreeEntry, type TreeNode } from "../../platform/mod.ts";

/** An item of a state file. */
export interface ReadItem {
  readonly section: Section;
  /** Its object: a node's name, or a service's NAMESPACE/NAME. Several items may belong to one object. */
  readonly path: string;
  /** The item's text; undefined in a file that could not be split. */
  readonly text: string | undefined;
  /** Its content; parsed on demand if the text was known. */
  item(): Promise<StateItem>;
}

/** The object path of an item's text that was read before. */
type Known = (section: Section, text: string) => string | undefined;

/**
 * Reads a state file. An item whose text is `known` is not parsed again. Awaits `yieldTurn` from time to time, so that a large
 * file does not block other work. Throws StateError for the first syntax error or else the first invalid field.
 */
export async function readStateFile(
  text: string,
  known: Known,
  yieldTurn: () => Promise<void>,
): Promise<readonly ReadItem[]> {
  const split = await splitItems(text, yieldTurn);
  return (split && await readSplit(split, known, yieldTurn)) ?? await readWhole(text);
}

/** Undefined if an item cannot be read without the rest of the file. */
async function readSplit(
  split: readonly ItemText[],
  known: Known,
  yieldTurn: () => Promise<void>,
): Promise<readonly ReadItem[] | undefined> {
  const items: ReadItem[] = [];
  let firstError: StateError | undefined;
  for (const one of split) {
    const { section, text, line } = one;
    requireShort(text, line);
    const path = known(section, text);
    if (path !== undefined) {
      items.push({ section, path, text, item: async () => readItem(section, (await parseItem(one))!) });
      continue;
    }
    await yieldTurn();
    const tree = await parseItem(one);
    if (tree === undefined) return undefined;
    try {
      items.push(readItemOf(readItem(section, tree), text));
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      firstError ??= error;
    }
  }
  if (firstError !== undefined) throw firstError;
  return items;
}

async function readWhole(text: string): Promise<readonly ReadItem[]> {
  requireShort(text, 1);
  return readState(await parseYaml(text, 1)).map((item) => readItemOf(item, undefined));
}

/**
 * Parses any YAML; `line` is the file's line at which the text starts. Undefined for an empty text, and for a part of a file with
 * aliases, whose anchors may be outside the part. Throws StateSyntaxError for the first error.
 */
export async function parseYaml(text: string, line: number, isPart = false): Promise<TreeNode | undefined> {
  const parseTree = await loadTreeParser();
  const { root, hasAliases, errors: [error], secondDocument } = parseTree(text, { line, uniqueKeys: true });
  if (isPart && hasAliases) return undefined;
  if (error !== undefined) throw new StateSyntaxError(error.message, error.line);
  if (secondDocument !== undefined) throw new StateSyntaxError("must be one document", secondDocument);
  return root;
}

/** The maximum length of what is parsed at once, in characters: an item, or a file that cannot be split. */
const MOST_AT_ONCE = 16 * 2 ** 20;

function requireShort({ length }: string, line: number): void {
  if (length > MOST_AT_ONCE) throw new StateError(`an item of more than ${MOST_AT_ONCE / 2 ** 20} MiB`, line);
}

function readItemOf(item: StateItem, text: string | undefined): ReadItem {
  return { section: item.section, path: pathOf(item), text, item: () => Promise.resolve(item) };
}

/** Parses an item alone; undefined if it depends on the rest of the file. Throws StateSyntaxError. */
async function parseItem({ text, line }: ItemText): Promise<TreeNode | undefined> {
  const plain = parsePlainTree(text, line);
  return onlyItem(plain ?? await parseYaml(text, line, true));
}

function onlyItem(root: TreeNode | undefined): TreeNode | undefined {
  return root?.kind === "list" && root.items.length === 1 ? root.items[0] : undefined;
}

function pathOf(item: StateItem): string {
  if (item.section === "nodes") return item.message.name ?? "";
  return `${item.message.namespace || "default"}/${item.message.name ?? ""}`;
}

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

/** Parses a text of this subset, which starts at `line`, like `parseYaml`; undefined for others and errors. */
export function parsePlainTree(text: string, line: number): TreeNode | undefined {
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

function readBlock(reader: Reader): TreeNode {
  return reader.lines[reader.at]!.dash ? readList(reader) : readMap(reader);
}

function readList(reader: Reader): TreeNode {
  const { number, indent } = reader.lines[reader.at]!;
  const items: TreeNode[] = [];
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

function readMap(reader: Reader): TreeNode {
  const { number, indent } = reader.lines[reader.at]!;
  const entries: TreeEntry[] = [];
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

function readValue(reader: Reader, line: Line): TreeNode {
  reader.at++;
  if (line.rest !== "") return readScalar(line);
  const next = reader.lines[reader.at];
  const isNested = next !== undefined && (next.indent > line.indent || (next.indent === line.indent && next.dash));
  return isNested ? readBlock(reader) : { kind: "scalar", line: line.number, value: null, source: "" };
}

function readScalar({ rest, number: line }: Line): TreeNode {
  const scalar = (value: unknown): TreeNode => ({ kind: "scalar", line, value, source: rest });
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
function readJson(text: string, line: number): TreeNode {
  try {
    const value: unknown = JSON.parse(text);
    if (JSON.stringify(value) === text) return treeOfJson(value, line);
  } catch (error) {
    // Not JSON, or nested too deep.
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
  }
  throw new NotPlain();
}

function treeOfJson(value: unknown, line: number): TreeNode {
  if (Array.isArray(value)) return { kind: "list", line, items: value.map((item) => treeOfJson(item, line)) };
  if (typeof value !== "object" || value === null) return { kind: "scalar", line, value, source: String(value) };
  const entries = Object.entries(value).map(([key, value]) => ({ key, line, value: treeOfJson(value, line) }));
  return { kind: "map", line, entries };
}

/** The text of one list item, from its dash to the next item. */
interface ItemText {
  readonly section: Section;
  readonly text: string;
  /** The file's line at which it starts, from 1. */
  readonly line: number;
}

const HEADER = /^(nodes|services):( \[\])?$/;
/** Line ends in JavaScript's regular expressions, but not in YAML. */
const ODD_LINE_ENDS = /\r(?!\n)|[\u2028\u2029]/;
const DEEPEST_DASH = 16;

/** Matches lines outside of an item whose dash has this indent; without a dash, all lines with content. */
function outerLines(dashIndent?: number): RegExp {
  return new RegExp(`^( {0,${dashIndent ?? ""}})([^ \\r\\n].*)$`, "gm");
}

/**
 * Splits a state file into its items without parsing them; undefined for a file that is not two block lists, which needs a full
 * YAML parser. By YAML's rules, everything indented deeper than its list's dashes is an item's content; any other line must be
 * a dash, a comment or the name of a list. Awaits `yieldTurn` between items.
 */
export async function splitItems(
  text: string,
  yieldTurn: () => Promise<void>,
): Promise<readonly ItemText[] | undefined> {
  if (ODD_LINE_ENDS.test(text)) return undefined;
  const items: ItemText[] = [];
  const seen = new Set<string>();
  let lines = outerLines();
  let section: Section | undefined;
  let dashIndent: number | undefined;
  let start: number | undefined;
  let counted = { line: 1, at: 0 };

  const endItem = (end: number) => {
    if (start === undefined || section === undefined) return;
    counted = { line: counted.line + countLines(text.slice(counted.at, start)), at: start };
    items.push({ section, text: text.slice(start, end), line: counted.line });
    start = undefined;
  };

  for (let found; (found = lines.exec(text)) !== null;) {
    const [all, { length: indent }, content] = found as unknown as readonly [string, string, string];
    if (content.startsWith("#")) continue;
    const [, name, empty] = indent === 0 ? HEADER.exec(content) ?? [] : [];
    if (name !== undefined) {
      endItem(found.index);
      if (seen.has(name)) return undefined;
      seen.add(name);
      section = empty === undefined ? name as Section : undefined;
      dashIndent = undefined;
      const { lastIndex } = lines;
      lines = outerLines();
      lines.lastIndex = lastIndex;
    } else {
      const isDash = content === "-" || content.startsWith("- ");
      if (!isDash || section === undefined || indent > DEEPEST_DASH) return undefined;
      endItem(found.index);
      start = found.index;
      if (dashIndent === undefined) {
        dashIndent = indent;
        lines = outerLines(indent);
        lines.lastIndex = start + all.length;
      } else if (indent !== dashIndent) return undefined;
      await yieldTurn();
    }
  }
  endItem(text.length);
  return seen.size === 0 ? undefined : items;
}
