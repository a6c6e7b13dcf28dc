/** The lines of listings: tables, sets, elements and chains as nft prints them. */
import { declarationOf, DEFAULT_SET_SIZE, type SetName } from "./sets.ts";
import { type Dialect, TABLE } from "./table.ts";
import type { ItemList, Listing } from "./transaction.ts";

const ELEMENTS = "\t\telements = { ";

/** The elements in a line of a listing; undefined if it is not one with elements. */
function elementsIn(line: string): readonly string[] | undefined {
  const start = line.startsWith(ELEMENTS) ? ELEMENTS.length : 0;
  if (start === 0 && !line.startsWith("\t\t\t")) return undefined;
  const end = line.endsWith(" }") ? line.length - 2 : line.endsWith(",") ? line.length - 1 : line.length;
  return line.slice(start, end).trimStart().split(", ");
}

const SET = /^\tset (\S+) \{$/;

/**
 * Reads the lines of a listing of sets.
 * @param onElement called with each element as nft prints it: `10.0.0.1 timeout 3h expires 2h59m`
 * @param onSet called for each set before its elements
 */
export function elementReader(
  onElement: (set: string, element: string) => void,
  onSet: () => void = () => {},
): (line: string) => void {
  let set = "";
  return (line) => {
    const name = SET.exec(line)?.[1];
    if (name !== undefined) {
      set = name;
      onSet();
    }
    for (const element of elementsIn(line) ?? []) onElement(set, element);
  };
}

/** The main table as nft lists it. */
export interface TableListing {
  readonly items: Listing;
  /** Whether the table is dormant: the kernel calls none of its chains. */
  readonly isDormant: boolean;
}

/** The size that the kernel gives to a set, and not its declaration. */
const KERNEL_SIZE = `size ${DEFAULT_SET_SIZE}`;

const BLOCK = /^\t(map|set|chain) (\S+) \{$/, DORMANT = /^\tflags .*\bdormant\b/;

/** A set, map or chain whose lines are being read. */
interface Block {
  readonly kind: string;
  readonly name: string;
  /** Its lines, except for elements. */
  readonly lines: string[];
  /** Whether rules add its elements. */
  readonly isAddedTo: boolean;
  /** Notes an element; absent if elements are not noted. */
  readonly note?: (element: string) => void;
}

/** Reads the lines of listings of the main table, of many tables, or of single sets and maps of it. */
interface TableReader {
  readonly onLine: (line: string) => void;
  /** Returns the table; undefined if it was in no listing. */
  result(): TableListing | undefined;
  /** The number of lines with elements that rules have added. */
  addedLines(): number;
}

/** A reader that has read nothing yet. */
export function createTableReader({ ip }: Dialect): TableReader {
  const sets = new Map<string, string>(), chains = new Map<string, string>();
  const items = new Map<ItemList, Map<string, string>>([["set", sets], ["chain", chains]]);
  const begin = `table ${ip} ${TABLE} {`;
  const state: { isFound: boolean; inTable: boolean; isDormant: boolean; addedLines: number; block?: Block } = {
    isFound: false,
    inTable: false,
    isDormant: false,
    addedLines: 0,
  };

  const beginBlock = (kind: string, name: string): Block => {
    const block = { kind, name, lines: [], isAddedTo: false };
    if (kind === "chain") return block;
    const { elements, note = addElement } = declarationOf(name), isAddedTo = elements === "rules";
    if (isAddedTo && note === addElement) return { ...block, isAddedTo };
    const into = new Map<string, string>();
    items.set(name as SetName, into);
    return { ...block, isAddedTo, note: (element) => note(into, element) };
  };
  const endBlock = ({ kind, name, lines }: Block) => {
    if (kind === "chain") chains.set(name, lines.join("\n"));
    else sets.set(name, [kind, ...lines.filter((line) => line !== KERNEL_SIZE)].join("\n"));
  };
  return {
    onLine(line) {
      if (line.startsWith("table ")) {
        state.inTable = line === begin;
        state.isFound ||= state.inTable;
        return;
      }
      if (!state.inTable) return;
      const { block } = state, elements = elementsIn(line);
      if (elements !== undefined) {
        if (block?.isAddedTo) state.addedLines++;
        if (block?.note) { for (const element of elements) block.note(element); }
      } else if (block === undefined) {
        const [, kind, name] = BLOCK.exec(line) ?? [];
        if (DORMANT.test(line)) state.isDormant = true;
        if (kind !== undefined) state.block = beginBlock(kind, name!);
      } else if (line === "\t}") {
        endBlock(block);
        state.block = undefined;
      } else {
        block.lines.push(asRendered(line.trimStart()));
      }
    },
    result: () => state.isFound ? { items, isDormant: state.isDormant } : undefined,
    addedLines: () => state.addedLines,
  };
}

/** The priorities that nft 1.0.6 prints as numbers outside of one hook, and later versions by name. */
const PRIORITIES: Readonly<Record<string, number>> = { dstnat: -100, srcnat: 100 };

/**
 * A line of a chain or set as Sluice renders it, by the line as nft prints it. Versions differ: 1.0.6 prints a mask of the first
 * bit alone as a prefix; 1.1.3 prints an operator of flags, and the names of priorities for the hooks `input` and `output`
 * too; 1.1.7 appends the number of elements to the size of a set.
 */
export function asRendered(line: string): string {
  return line
    .replace("tcp flags & (syn | ack) == syn | ack ", "tcp flags syn,ack / syn,ack ")
    .replace(/^(size \d+)\t# count \d+$/, "$1")
    .replace("meta mark 0x00000000/1 ", "meta mark & 0x80000000 == 0x00000000 ")
    .replace(
      /^(type \w+ hook (?:in|out)put priority )(dstnat|srcnat)(?: ([+-]) (\d+))?;/,
      (_, start: string, name: string, sign = "+", offset = "0") =>
        `${start}${PRIORITIES[name]! + Number(`${sign}${offset}`)};`,
    );
}

function addElement(into: Map<string, string>, element: string): void {
  const colon = element.indexOf(" : ");
  if (colon < 0) into.set(element, "");
  else into.set(element.slice(0, colon), element.slice(colon + 3));
}

/** The chains of a table by name, each with its handle if it has a hook. A chain that is created again has another handle. */
export type ChainHandles = ReadonlyMap<string, string | undefined>;

/** Reads the lines of a listing of all chains with handles; `chains` has those of the main table. */
export function createChainReader(
  { ip }: Dialect,
): { readonly chains: ChainHandles; readonly onLine: (line: string) => void } {
  const chains = new Map<string, string | undefined>();
  let inTable = false, name = "", handle = "";
  const onLine = (line: string) => {
    const chain = /^\tchain (\S+) \{ # handle (\d+)$/.exec(line);
    if (line.startsWith("table ")) inTable = line === `table ${ip} ${TABLE} {`;
    else if (inTable && chain) {
      [, name = "", handle = ""] = chain;
      chains.set(name, undefined);
    } else if (inTable && line.includes(" hook ")) chains.set(name, handle);
  };
  return { chains, onLine };
}
