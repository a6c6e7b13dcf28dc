import { countLines } from "../../platform/mod.ts";

/** The lists of a state file. */
export const SECTIONS = ["nodes", "services"] as const;
export type Section = typeof SECTIONS[number];

/** One item of a list as it is written: from its dash up to what follows it. */
export interface ItemText {
  readonly section: Section;
  readonly text: string;
  /** The file's line at which it starts, from 1. */
  readonly line: number;
}

const HEADER = /^(nodes|services):( \[\])?$/;
/** Line ends for this language's expressions, but not for YAML. */
const ODD_LINE_ENDS = /\r(?!\n)|[\u2028\u2029]/;
const DEEPEST_DASH = 16;

/** The lines that are no content of an item whose dash is indented so far; without a dash, all lines with content. */
function outerLines(dashIndent?: number): RegExp {
  return new RegExp(`^( {0,${dashIndent ?? ""}})([^ \\r\\n].*)$`, "gm");
}

/**
 * The items of a state file without parsing them, in the order of the file; undefined for a file that is not two block
 * lists, which only a parser of all of YAML can split. By YAML's rules, what is indented deeper than its list's dashes is
 * an item's content, whatever it is; anything else but a dash, a comment or the name of a list is another form.
 * `breathe` is awaited between items.
 */
export async function splitItems(
  text: string,
  breathe: () => Promise<void>,
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
      await breathe();
    }
  }
  endItem(text.length);
  return seen.size === 0 ? undefined : items;
}
