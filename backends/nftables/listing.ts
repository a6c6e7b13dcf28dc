import { type UdpFrontend, udpFrontend } from "../host/mod.ts";
import { declarationOf, DEFAULT_SET_SIZE, type SetName, setsWith } from "./sets.ts";
import type { Dialect } from "./table.ts";
import { elementsIn, type NftTools } from "./tools.ts";
import type { ItemList } from "./transaction.ts";

/**
 * The items of the table in the kernel: the texts by list and key. `chain` and `set` are always among the lists. Of the elements that
 * rules add, only those of clients are, summed up; without `clients`, there were too many to read.
 */
export type Listing = ReadonlyMap<ItemList, Map<string, string>>;

/** The size that the kernel gives to a set, and not its declaration. */
const KERNEL_SIZE = `size ${DEFAULT_SET_SIZE}`;

const BLOCK = /^\t(map|set|chain) (\S+) \{$/, DORMANT = /^\tflags .*\bdormant\b/;

/**
 * Reads the table; undefined if it does not exist. Throws if it cannot be read.
 * @param onDormant called if the table is dormant: the kernel calls none of its chains
 */
export async function readTable(tools: NftTools, onDormant: () => void = () => {}): Promise<Listing | undefined> {
  const sets = new Map<string, string>(), chains = new Map<string, string>();
  const listing = new Map<ItemList, Map<string, string>>([["set", sets], ["chain", chains]]);
  let kind: string | undefined;
  let name = "";
  let lines: string[] = [];
  let into: Map<string, string> | undefined;
  let note = addElement;

  let isWithoutClients = false;
  const onLine = (line: string) => {
    const elements = elementsIn(line);
    if (elements !== undefined) {
      if (into) { for (const element of elements) note(into, element); }
    } else if (kind === undefined) {
      const block = BLOCK.exec(line);
      if (DORMANT.test(line)) onDormant();
      if (!block) return;
      kind = block[1]!;
      name = block[2]!;
      lines = [];
      into = undefined;
      if (kind === "chain") return;
      const declaration = declarationOf(name);
      note = declaration.note ?? addElement;
      if (declaration.elements !== "rules" || declaration.note) listing.set(name as SetName, into = new Map());
    } else if (line === "\t}") {
      if (kind === "chain") chains.set(name, lines.join("\n"));
      else sets.set(name, [kind, ...lines.filter((line) => line !== KERNEL_SIZE)].join("\n"));
      kind = undefined;
    } else {
      lines.push(asRendered(line.trimStart()));
    }
  };
  const found = await tools.listTable(onLine, () => isWithoutClients = true);
  if (isWithoutClients) listing.delete("clients");
  return found ? listing : undefined;
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

/** The UDP frontends of a table, those that reject or drop included. */
export function udpFrontendsOf(listing: Listing, { anyAddress }: Dialect): Set<UdpFrontend> {
  const frontends = new Set<UdpFrontend>();
  for (const set of setsWith("hasFrontends")) {
    for (const key of listing.get(set)?.keys() ?? []) {
      const [address, protocol, port] = key.split(" . ");
      if (protocol !== "udp") continue;
      frontends.add(udpFrontend(address === anyAddress ? undefined : address, Number(port)));
    }
  }
  return frontends;
}
