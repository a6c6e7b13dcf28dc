import { readItem, readState, type Section, StateError, type StateItem, StateSyntaxError } from "./document.ts";
import { countLines, loadYaml, type TreeNode } from "../../platform/mod.ts";

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
  const { parseTree } = await loadYaml();
  const { documents: [root, second], hasAliases, errors: [error] } = parseTree(text, { line, uniqueKeys: true });
  if (isPart && hasAliases) return undefined;
  if (error !== undefined) throw new StateSyntaxError(error.message, error.line);
  if (second !== undefined) throw new StateSyntaxError("must be one document", second.line);
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
  const root = await parseYaml(text, line, true);
  return root?.kind === "list" && root.items.length === 1 ? root.items[0] : undefined;
}

function pathOf(item: StateItem): string {
  if (item.section === "nodes") return item.message.name ?? "";
  return `${item.message.namespace || "default"}/${item.message.name ?? ""}`;
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
async function splitItems(
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
