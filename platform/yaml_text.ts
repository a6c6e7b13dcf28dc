import {
  CORE_SCHEMA,
  dump,
  type Event,
  EVENT_ID,
  getScalarValue,
  parseEvents,
  SCALAR_STYLE,
  type ScalarEvent,
  YAMLException,
} from "js-yaml";

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
 * Parses YAML 1.2, and resolves aliases and merge keys (`<<`). Aliases of the same anchor share its node. Never throws: problems
 * are in `errors`.
 */
export function parseTree(text: string, { line: firstLine = 1, uniqueKeys }: TreeOptions): ParsedTree {
  try {
    return readDocuments(text, parseEvents(text, {}), firstLine, uniqueKeys);
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const line = firstLine + (error.mark?.line ?? 0);
    return { documents: [], hasAliases: false, errors: [{ line, message: `not YAML: ${error.reason}` }] };
  }
}

/** Aliases may repeat what was read at most this often: aliases of aliases grow exponentially for whoever reads the values. */
const MOST_REPETITION = 10, FREE_REPETITION = 10_000;

/** Tags of scalars whose text decides what they are, as without a tag. */
const RESOLVED_TAGS: ReadonlySet<string> = new Set(["!!int", "!!float", "!!bool", "!!null"]);

function readDocuments(text: string, events: readonly Event[], firstLine: number, uniqueKeys: boolean): ParsedTree {
  const errors: { line: number; message: string }[] = [];
  const lineAt = lineFinder(text, firstLine);
  const mostNodes = MOST_REPETITION * events.length + FREE_REPETITION;
  /** The nodes with an anchor in this document, and how many values each stands for; undefined while one is being read. */
  let anchors = new Map<string, { readonly node: TreeNode; readonly size: number } | undefined>();
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
      ? readScalar(event)
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
  const readScalar = (event: ScalarEvent): TreeNode => {
    const source = event.valueStart < 0 ? "" : getScalarValue(text, event);
    const isResolved = event.tagStart < 0
      ? event.style === SCALAR_STYLE.PLAIN
      : RESOLVED_TAGS.has(text.slice(event.tagStart, event.tagEnd));
    const value = isResolved ? CORE_SCHEMA.resolveImplicitScalarTag(source).value : source;
    // The text of a block begins on the line after its key.
    const isBlock = event.style === SCALAR_STYLE.LITERAL_BLOCK || event.style === SCALAR_STYLE.FOLDED_BLOCK;
    return { kind: "scalar", line: lineAt(isBlock ? -1 : event.valueStart), value, source };
  };
  const readList = (line: number): TreeNode => {
    const items: TreeNode[] = [];
    while (events[at]!.type !== EVENT_ID.POP) items.push(read());
    at++;
    return { kind: "list", line, items };
  };
  const readMap = (line: number): TreeNode => {
    const entries: TreeEntry[] = [], merged: TreeEntry[] = [];
    for (let event: Event; (event = events[at]!).type !== EVENT_ID.POP;) {
      const key = read(), value = read();
      if (isMerge(text, event)) { for (const entry of entriesToMerge(value)) merged.push(entry); }
      else if (key.kind !== "scalar") fail(key.line, "a list or a map cannot be a key");
      else entries.push({ key: key.source ?? "", line: key.line, value });
    }
    at++;
    if (uniqueKeys) {
      for (const { key, line } of repeatedIn(entries)) fail(line, `key ${JSON.stringify(key)} is repeated`);
    }
    return { kind: "map", line, entries: merged.length > 0 ? withMerged(entries, merged) : entries };
  };

  const documents: TreeNode[] = [];
  while (at < events.length) {
    // The event that begins the document, and the one that ends it, enclose its value.
    at++;
    anchors = new Map();
    const document = read();
    if (documents.length === 0 || !isEmpty(document)) documents.push(document);
    at++;
  }
  return { documents, hasAliases, errors };
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

/** The entries of a map, or of a list of maps, of which the first one with a key counts. */
function entriesToMerge(node: TreeNode): readonly TreeEntry[] {
  if (node.kind === "map") return node.entries;
  return node.kind === "list" ? node.items.flatMap((item) => item.kind === "map" ? item.entries : []) : [];
}

/** A map's own entries and, of those to merge, the first one of each other key. */
function withMerged(own: readonly TreeEntry[], merged: readonly TreeEntry[]): readonly TreeEntry[] {
  const keys = new Set(own.map(({ key }) => key));
  return [...own, ...merged.filter(({ key }) => !keys.has(key) && keys.add(key))];
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

/** Formats plain data as YAML that parsers of YAML 1.1, such as Go's, read the same way. Entries without a value are left out. */
export function formatYaml(value: unknown, { sortKeys = false } = {}): string {
  return dump(value, { quoteStyle: "double", lineWidth: -1, noRefs: true, skipInvalid: true, sortKeys });
}
