import { readItem, readState, type StateItem } from "./document.ts";
import { type ItemText, type Section, splitItems } from "./items.ts";
import { parsePlainTree } from "./plain_tree.ts";
import { StateError, type StateNode } from "./tree.ts";

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
    const { section, text } = one;
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
  const { parseYamlTree } = await import("./yaml_tree.ts");
  return readState(parseYamlTree(text, 1).root).map((item) => readItemOf(item, undefined));
}

function readItemOf(item: StateItem, text: string | undefined): ReadItem {
  return { section: item.section, path: pathOf(item), text, item: () => Promise.resolve(item) };
}

/** Parses an item alone; undefined if it depends on the rest of the file. Throws StateSyntaxError. */
async function parseItem({ text, line }: ItemText): Promise<StateNode | undefined> {
  const plain = parsePlainTree(text, line);
  if (plain !== undefined) return onlyItem(plain);
  const { parseYamlTree } = await import("./yaml_tree.ts");
  const { root, hasAliases } = parseYamlTree(text, line);
  return hasAliases ? undefined : onlyItem(root);
}

function onlyItem(root: StateNode): StateNode | undefined {
  return root.kind === "list" && root.items.length === 1 ? root.items[0] : undefined;
}

function pathOf(item: StateItem): string {
  if (item.section === "nodes") return item.message.name ?? "";
  return `${item.message.namespace || "default"}/${item.message.name ?? ""}`;
}
