import { readItem, readState, type StateItem } from "./document.ts";
import { type ItemText, type Section, splitItems } from "./items.ts";
import { parsePlainTree } from "./plain_tree.ts";
import { StateError, type StateNode } from "./tree.ts";

/** One item of a state file that has been read. */
export interface ReadItem {
  readonly section: Section;
  /** Which object of that list it is of: a node's name, or a service's NAMESPACE/NAME. Several may be of one object. */
  readonly path: string;
  /** The item as it is written; undefined in a file that could not be split. */
  readonly text: string | undefined;
  /** What it says; parsed when asked for where the text was known. */
  item(): Promise<StateItem>;
}

/** The path of the object that an item's text is of, where it was read before. */
type Known = (section: Section, text: string) => string | undefined;

/**
 * Reads the text of a state file. An item whose text is `known` is not parsed again. `breathe` is awaited now and then, so that a large file does not hold up everything else. Throws StateError
 * for the first mistake in the file: one in its syntax, where there is one, otherwise one in its fields.
 */
export async function readStateFile(
  text: string,
  known: Known,
  breathe: () => Promise<void>,
): Promise<readonly ReadItem[]> {
  const split = await splitItems(text, breathe);
  return (split && await readSplit(split, known, breathe)) ?? await readWhole(text);
}

/** Undefined where an item cannot be read without the rest of the file. */
async function readSplit(
  split: readonly ItemText[],
  known: Known,
  breathe: () => Promise<void>,
): Promise<readonly ReadItem[] | undefined> {
  const items: ReadItem[] = [];
  let mistake: StateError | undefined;
  for (const one of split) {
    const { section, text } = one;
    const path = known(section, text);
    if (path !== undefined) {
      items.push({ section, path, text, item: async () => readItem(section, (await parseItem(one))!) });
      continue;
    }
    await breathe();
    const tree = await parseItem(one);
    if (tree === undefined) return undefined;
    try {
      items.push(readItemOf(readItem(section, tree), text));
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      mistake ??= error;
    }
  }
  if (mistake !== undefined) throw mistake;
  return items;
}

async function readWhole(text: string): Promise<readonly ReadItem[]> {
  const { parseYamlTree } = await import("./yaml_tree.ts");
  return readState(parseYamlTree(text, 1).root).map((item) => readItemOf(item, undefined));
}

function readItemOf(item: StateItem, text: string | undefined): ReadItem {
  return { section: item.section, path: pathOf(item), text, item: () => Promise.resolve(item) };
}

/** The item's tree, by itself; undefined where that depends on the rest of the file. Throws StateSyntaxError. */
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
