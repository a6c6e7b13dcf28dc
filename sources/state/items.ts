import { countLines } from "../../platform/mod.ts";

/** The lists of a state file. */
export const SECTIONS = ["nodes", "services"] as const;
export type Section = typeof SECTIONS[number];

/** The text of one list item, from its dash to the next item. */
export interface ItemText {
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
  let line = 1;
  let counted = 0;

  const endItem = (end: number) => {
    if (start === undefined || section === undefined) return;
    line += countLines(text.slice(counted, start));
    counted = start;
    items.push({ section, text: text.slice(start, end), line });
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
