import {
  DEFAULT_SCALAR_STYLE_RULES,
  dump,
  type Event,
  EVENT_ID,
  getScalarValue,
  parseEvents,
  SCALAR_STYLE,
  type ScalarEvent,
  type ScalarLayout,
  strTag,
  YAMLException,
} from "js-yaml";
import { parseInteger } from "./text.ts";

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

interface ParsedTree {
  /** Its first document, which is a null if it is empty, and all others that are not; none if it is not YAML or has comments only. */
  readonly documents: readonly TreeNode[];
  readonly hasAliases: boolean;
  readonly errors: readonly { readonly line: number; readonly message: string }[];
}

interface TreeOptions {
  /** The file's line at which the text starts; 1 by default. */
  readonly line?: number;
  /** Whether a repeated key is an error. */
  readonly uniqueKeys: boolean;
}

/**
 * Parses YAML, and resolves aliases and merge keys (`<<`). Plain text has the value that it has for Kubernetes, whose parser
 * (go.yaml.in/yaml/v2) follows YAML 1.1: `yes` is true and `010` is 8. Aliases of the same anchor share its node. Never throws:
 * problems are in `errors`.
 */
export function parseTree(text: string, options: TreeOptions): ParsedTree {
  let indented = text, first: YAMLException | undefined;
  for (let parsed = 0;; parsed += indented.length) {
    try {
      return readDocuments(indented, parseEvents(indented, {}), options);
    } catch (error) {
      if (!(error instanceof YAMLException)) throw error;
      first ??= error;
      if (error.reason !== TOO_FAR_LEFT || parsed > MOST_PARSED_AGAIN) {
        const line = (options.line ?? 1) + (first.mark?.line ?? 0);
        return { documents: [], hasAliases: false, errors: [{ line, message: `not YAML: ${first.reason}` }] };
      }
      indented = withIndentation(indented, error.mark?.position ?? 0);
    }
  }
}

/**
 * js-yaml's error about a line of a list or map in brackets, or of a string in quotes, that begins no further right than its
 * parent, such as a closing bracket. Kubernetes' parser accepts it.
 */
const TOO_FAR_LEFT = "deficient indentation";
/** How many characters are parsed again, because of such lines, before that error counts. */
const MOST_PARSED_AGAIN = 2 ** 20;

/** Moves a line that has this offset far to the right, which changes no value within brackets or quotes. */
function withIndentation(text: string, offset: number): string {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  return text.slice(0, start) + " ".repeat(200) + text.slice(start);
}

/** Aliases may repeat what was read at most this often: aliases of aliases grow exponentially for whoever reads the values. */
const MOST_REPETITION = 10, FREE_REPETITION = 10_000;

/** Tags of scalars whose text decides what they are, as without a tag. */
const RESOLVED_TAGS: ReadonlySet<string> = new Set(["!!int", "!!float", "!!bool", "!!null"]);

/** The words that are no strings, in the three spellings that YAML accepts. */
const WORDS: ReadonlyMap<string, boolean | null> = new Map(
  ([[true, "true", "yes", "on", "y"], [false, "false", "no", "off", "n"], [null, "null", "~", ""]] as const)
    .flatMap(([value, ...words]) =>
      words.flatMap((word) =>
        [word, word.slice(0, 1).toUpperCase() + word.slice(1), word.toUpperCase()].map((spelling) => [spelling, value])
      )
    ),
);

const FLOAT = /^[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$/;

/** The value of plain text. Infinity and NaN are strings, since JSON has no such numbers. */
function resolvePlain(text: string): string | number | boolean | null {
  const word = WORDS.get(text);
  if (word !== undefined) return word;
  if (!/^[-+.\d]/.test(text)) return text;
  const digits = text.replaceAll("_", "");
  const number = parseInteger(digits) ?? (FLOAT.test(digits) ? Number(digits) : NaN);
  return Number.isFinite(number) ? number : text;
}

function readDocuments(
  text: string,
  events: readonly Event[],
  { line: firstLine = 1, uniqueKeys }: TreeOptions,
): ParsedTree {
  const errors: { line: number; message: string }[] = [];
  const lineAt = lineFinder(text, firstLine);
  const mostNodes = MOST_REPETITION * events.length + FREE_REPETITION;
  /** The nodes with an anchor in this document, and how many values each stands for; undefined while one is being read. */
  const anchors = new Map<string, { readonly node: TreeNode; readonly size: number } | undefined>();
  let at = 0, nodes = 0, hasAliases = false;

  const fail = (line: number, message: string): TreeNode => {
    errors.push({ line, message });
    return { kind: "scalar", line, value: undefined };
  };
  const read = (): TreeNode => {
    const event = events[at++]!, before = nodes++;
    if (event.type === EVENT_ID.ALIAS) {
      return readAlias(text.slice(event.anchorStart, event.anchorEnd), event.anchorStart);
    }
    if (event.type === EVENT_ID.DOCUMENT || event.type === EVENT_ID.POP) throw new Error("a value was expected");
    const anchor = event.anchorStart < 0 ? undefined : text.slice(event.anchorStart, event.anchorEnd);
    if (anchor !== undefined) anchors.set(anchor, undefined);
    const node = event.type === EVENT_ID.SCALAR
      ? scalarNode(text, event, lineAt)
      : event.type === EVENT_ID.SEQUENCE
      ? readList(lineAt(event.start))
      : readMap(lineAt(event.start));
    if (anchor !== undefined) anchors.set(anchor, { node, size: nodes - before });
    return node;
  };
  const readAlias = (name: string, start: number): TreeNode => {
    hasAliases = true;
    const target = anchors.get(name);
    if (target === undefined) {
      return fail(lineAt(start), `${anchors.has(name) ? "circular" : "unknown"} alias *${name}`);
    }
    nodes += target.size;
    return nodes > mostNodes ? fail(lineAt(start), `alias *${name} repeats too much`) : target.node;
  };
  const readList = (line: number): TreeNode => {
    const items: TreeNode[] = [];
    while (events[at]!.type !== EVENT_ID.POP) items.push(read());
    at++;
    return { kind: "list", line, items };
  };
  const readMap = (line: number): TreeNode => {
    const entries: TreeEntry[] = [], merged = new Set<TreeEntry>();
    for (let event: Event; (event = events[at]!).type !== EVENT_ID.POP;) {
      const key = read(), value = read();
      if (isMerge(text, event)) {
        const added = entriesToMerge(value);
        if (added === undefined) fail(value.line, "only a map or a list of maps can be merged");
        for (const entry of added ?? []) entries.push(entry), merged.add(entry);
      } else if (key.kind !== "scalar") fail(key.line, "a list or a map cannot be a key");
      else entries.push({ key: key.source ?? "", line: key.line, value });
    }
    at++;
    const effective = merged.size > 0 ? withoutOverridden(entries, merged) : entries;
    if (uniqueKeys) {
      for (const { key, line } of repeatedIn(effective)) fail(line, `key ${JSON.stringify(key)} is repeated`);
    }
    return { kind: "map", line, entries: effective };
  };

  const documents: TreeNode[] = [];
  while (at < events.length) {
    // The event that begins the document, and the one that ends it, enclose its value.
    at++;
    anchors.clear();
    const document = read();
    if (documents.length === 0 || !isEmpty(document)) documents.push(document);
    at++;
  }
  return { documents, hasAliases, errors };
}

function scalarNode(text: string, event: ScalarEvent, lineAt: (offset: number) => number): TreeNode {
  const source = event.valueStart < 0 ? "" : getScalarValue(text, event);
  const isResolved = event.tagStart < 0
    ? event.style === SCALAR_STYLE.PLAIN
    : RESOLVED_TAGS.has(text.slice(event.tagStart, event.tagEnd));
  const value = isResolved ? resolvePlain(source) : source;
  // The text of a block begins on the line after its key.
  const isBlock = event.style === SCALAR_STYLE.LITERAL_BLOCK || event.style === SCALAR_STYLE.FOLDED_BLOCK;
  return { kind: "scalar", line: lineAt(isBlock ? -1 : event.valueStart), value, source };
}

/** Whether a document has no value, not even a null that is written. */
function isEmpty(document: TreeNode): boolean {
  return document.kind === "scalar" && document.source === "";
}

/** Whether a key is a merge key; a quoted `"<<"` is a key like any other. */
function isMerge(text: string, event: Event): boolean {
  return event.type === EVENT_ID.SCALAR && event.style === SCALAR_STYLE.PLAIN &&
    event.valueEnd - event.valueStart === 2 &&
    text.startsWith("<<", event.valueStart);
}

/** The entries of a map, or of a list of maps, of which the first one with a key counts; undefined for another value. */
function entriesToMerge(node: TreeNode): readonly TreeEntry[] | undefined {
  if (node.kind === "map") return node.entries;
  if (node.kind !== "list" || !node.items.every((item) => item.kind === "map")) return undefined;
  return node.items.toReversed().flatMap(({ entries }) => entries);
}

/** The entries of a map without those that a merged one, or one after a merged one, replaces. A key may repeat without a merge. */
function withoutOverridden(entries: readonly TreeEntry[], merged: ReadonlySet<TreeEntry>): readonly TreeEntry[] {
  const last = new Map(entries.map((entry) => [entry.key, entry]));
  return entries.filter((entry) => {
    const effective = last.get(entry.key)!;
    return entry === effective || !(merged.has(entry) || merged.has(effective));
  });
}

/** The entries whose key an earlier one has. Most maps are small, and a set costs more than a few comparisons. */
function repeatedIn(entries: readonly TreeEntry[]): readonly TreeEntry[] {
  if (entries.length <= 16) {
    return entries.filter(({ key }, at) => entries.findIndex((other) => other.key === key) < at);
  }
  const keys = new Set<string>();
  return entries.filter(({ key }) => keys.has(key) || !keys.add(key));
}

/** Finds the lines of offsets in a text that do not decrease; a missing value (-1) is in the last line found. */
function lineFinder(text: string, firstLine: number): (offset: number) => number {
  let line = firstLine, end = text.indexOf("\n");
  return (offset) => {
    for (; end !== -1 && end < offset; end = text.indexOf("\n", end + 1)) line++;
    return line;
  };
}

/** The plain data of a tree. An integer that a number cannot hold is its text. */
export function plainData(node: TreeNode): unknown {
  if (node.kind === "list") return node.items.map(plainData);
  if (node.kind === "scalar") {
    const { value, source = "" } = node;
    return typeof value === "number" && !Number.isSafeInteger(value) && /^[-+]?\d+$/.test(source) ? source : value;
  }
  return Object.fromEntries(node.entries.map(({ key, value }) => [key, plainData(value)]));
}

/** Text that Go's readers take for a number once underscores are removed: more than any version of YAML, such as `0X2`. */
const GO_NUMBER = /^[-+]?(0[box][\da-f]+|(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?)$/i;
/** The beginning of a line that separates documents. */
const DOCUMENT_MARK = /^(---|\.\.\.)(\s|$)/;

/** Quotes strings that would be read as a number, and keys that would be read as the end of the document. */
function quoteAmbiguous(layout: ScalarLayout): void {
  const { node: { value, tag }, isKey } = layout;
  if (layout.style !== SCALAR_STYLE.PLAIN || tag !== strTag.tagName) return;
  if (!GO_NUMBER.test(value.replaceAll("_", "")) && !(isKey && DOCUMENT_MARK.test(value))) return;
  layout.style = SCALAR_STYLE.DOUBLE_QUOTED;
}

const STYLE_RULES = [...Object.values(DEFAULT_SCALAR_STYLE_RULES), quoteAmbiguous];

/** Formats plain data as YAML that parsers of YAML 1.1, such as Go's, read the same way. Entries without a value are left out. */
export function formatYaml(value: unknown, { sortKeys = false } = {}): string {
  const style = { quoteStyle: "double", lineWidth: -1, scalarStyleRules: STYLE_RULES } as const;
  return dump(value, { ...style, noRefs: true, skipInvalid: true, sortKeys });
}
