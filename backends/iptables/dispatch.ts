import { type Protocol, PROTOCOLS, type ServicePortKey } from "../../core/model/mod.ts";
import { addressBytes, addressOfBytes, joinFlat } from "../../platform/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { destinationPort } from "../xtables/mod.ts";

/**
 * The dispatch tree leads a packet to its rule among many through a tree of chains over the packet's destination. A place in
 * it is a string of hexadecimal digits: the address (8 or 32 digits; none for node ports), the protocol (one digit) and the
 * port (4 digits), most significant first.
 *
 * The chains and their rules depend on the entries alone, not on the order in which they were added. A place with more than
 * `LEAF_CAPACITY` entries below it branches by its next digit; one with fewer is a leaf. Branches with a single child are
 * skipped, and a single entry is a rule in the chain of its branch.
 */

/** The maximum number of rules in a leaf. A packet passes half of them on average, and a change rewrites all of them. */
export const LEAF_CAPACITY = 32;

/** One rule of the tree. */
export interface DispatchEntry {
  /** See `frontendPlace`. */
  readonly place: string;
  /** Entries at the same place are in the order of their owners. */
  readonly owner: ServicePortKey;
  /** The prefix of destinations that the rule is limited to; absent unless its owner may have several rules at the place. */
  readonly within?: string;
}

/** The rules of a chain, and the service port of each; undefined for a jump to another chain of the tree. */
interface DispatchChain {
  readonly rules: readonly string[];
  readonly owners: readonly (ServicePortKey | undefined)[];
}

const PORT_DIGITS = 4;
/** Two hexadecimal digits for each byte. */
const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** The place of an address, protocol and port; for a node port the address is the empty string. */
export function frontendPlace(address: string, protocol: Protocol, port: number): string {
  let digits = "";
  if (address !== "") { for (const byte of addressBytes(address)) digits += HEX[byte]; }
  return joinFlat("", digits, PROTOCOLS.indexOf(protocol), HEX[port >> 8]!, HEX[port & 255]!);
}

interface Branch {
  count: number;
  /** By digit. */
  readonly children: Map<string, TreeNode>;
}
type Leaf = Map<string, DispatchEntry>;
type TreeNode = Branch | Leaf;
type LeafChange = (leaf: Leaf) => void;

const countOf = (node: TreeNode) => node instanceof Map ? node.size : node.count;
const entryKey = ({ place, owner, within }: DispatchEntry) =>
  within === undefined ? joinFlat(" ", place, owner) : joinFlat(" ", place, owner, within);

/** One tree of chains, below one entry chain. */
export interface DispatchTree {
  add(entry: DispatchEntry): void;
  remove(entry: DispatchEntry): void;
  /** Returns the chains whose rules may have changed since the last call, including removed ones. */
  takeTouched(): string[];
  /** Returns the names of all chains as of the last `takeTouched`, including the entry chain. */
  chains(): Iterable<string>;
  /** Returns the rules of a chain; undefined if the tree had no such chain at the last `takeTouched`. */
  render(chain: string): DispatchChain | undefined;
  /** Returns the chains from the entry chain to the one with the rule of a place. */
  path(place: string): readonly string[];
  /** Returns the depth of a chain in digits, 0 for the entry chain; undefined if it is not in this tree. */
  depthOf(chain: string): number | undefined;
}

/** The chain names and the places of a tree. */
interface DispatchTreeOptions {
  /** The chain that packets enter. */
  readonly entryChain: string;
  /** The prefix of the other chains' names: at most 12 characters, since iptables allows 28 in all. */
  readonly namePrefix: string;
  /** The number of digits of the address in a place: 8, 32, or 0 for node ports. */
  readonly addressDigits: number;
  /** Renders the rule of an entry, without `-A CHAIN `. Rules are not stored, since they would be most of a tree's memory. */
  readonly ruleOf: (entry: DispatchEntry) => string;
}

/** Creates an empty tree. */
export function createDispatchTree(options: DispatchTreeOptions): DispatchTree {
  const { entryChain, namePrefix, addressDigits, ruleOf } = options;
  const touched = new Set<string>([""]);
  const placeOfChain = new Map<string, string>();
  let root: TreeNode = new Map();

  const nameOf = (prefix: string) =>
    prefix === "" ? entryChain : namePrefix + (prefix.length <= 16 ? prefix : shortHash(prefix));

  function renderLeaf(leaf: Leaf): DispatchChain {
    const entries = [...leaf.keys()].sort().map((key) => leaf.get(key)!);
    return { rules: entries.map(ruleOf), owners: entries.map((entry) => entry.owner) };
  }

  function renderBranch(branch: Branch, prefix: string): DispatchChain {
    const rules: string[] = [], owners: (ServicePortKey | undefined)[] = [];
    for (const digit of [...branch.children.keys()].sort()) {
      const below = resolve(branch.children.get(digit)!, prefix + digit);
      if (below.node instanceof Map && below.node.size === 1) {
        const only: DispatchEntry = below.node.values().next().value!;
        rules.push(ruleOf(only));
        owners.push(only.owner);
      } else {
        rules.push(`${placeMatch(below.prefix, addressDigits)}-j ${nameOf(below.prefix)}`);
        owners.push(undefined);
      }
    }
    return { rules, owners };
  }

  return {
    add(entry) {
      root = update(root, touched, "", entry.place, (leaf) => leaf.set(entryKey(entry), entry));
    },
    remove(entry) {
      root = update(root, touched, "", entry.place, (leaf) => leaf.delete(entryKey(entry)));
    },
    takeTouched() {
      const names: string[] = [];
      for (const prefix of touched) {
        const name = nameOf(prefix);
        if (nodeWithChain(root, prefix)) placeOfChain.set(name, prefix);
        else if (!placeOfChain.delete(name)) continue;
        names.push(name);
      }
      touched.clear();
      return names;
    },
    chains: () => placeOfChain.keys(),
    render(chain) {
      const prefix = placeOfChain.get(chain);
      const node = prefix === undefined ? undefined : nodeWithChain(root, prefix);
      if (prefix === undefined || !node) return undefined;
      return node instanceof Map ? renderLeaf(node) : renderBranch(node, prefix);
    },
    path(place) {
      const chains = [entryChain];
      let node = root, prefix = "";
      while (!(node instanceof Map)) {
        const digit = place[prefix.length]!, child = node.children.get(digit);
        if (child === undefined) break;
        ({ node, prefix } = resolve(child, prefix + digit));
        if (node instanceof Map && node.size === 1) break;
        chains.push(nameOf(prefix));
      }
      return chains;
    },
    depthOf: (chain) => placeOfChain.get(chain)?.length,
  };
}

function split(leaf: Leaf, touched: Set<string>, prefix: string, placeDigits: number): TreeNode {
  const depth = prefix.length;
  if (leaf.size <= LEAF_CAPACITY || depth >= placeDigits) return leaf;
  const leaves = new Map<string, Leaf>();
  for (const [key, entry] of leaf) {
    const digit = entry.place[depth]!;
    const child = leaves.get(digit);
    if (child) child.set(key, entry);
    else leaves.set(digit, new Map([[key, entry]]));
  }
  const children = new Map<string, TreeNode>();
  for (const [digit, child] of leaves) {
    touched.add(prefix + digit);
    children.set(digit, split(child, touched, prefix + digit, placeDigits));
  }
  return { count: leaf.size, children };
}

function gather(node: TreeNode, touched: Set<string>, prefix: string, into: Leaf): void {
  touched.add(prefix);
  if (node instanceof Map) {
    for (const [key, entry] of node) into.set(key, entry);
  } else {
    for (const [digit, child] of node.children) gather(child, touched, prefix + digit, into);
  }
}

/** Applies `change` to the leaf of a place and returns the node that replaces `node`. */
function update(node: TreeNode, touched: Set<string>, prefix: string, place: string, change: LeafChange): TreeNode {
  touched.add(prefix);
  if (node instanceof Map) {
    change(node);
    return split(node, touched, prefix, place.length);
  }
  const digit = place[prefix.length]!;
  const before = node.children.get(digit) ?? new Map();
  const countBefore = countOf(before);
  const after = update(before, touched, prefix + digit, place, change);
  node.count += countOf(after) - countBefore;
  if (countOf(after) === 0) node.children.delete(digit);
  else node.children.set(digit, after);
  if (node.count > LEAF_CAPACITY) return node;
  const leaf: Leaf = new Map();
  gather(node, touched, prefix, leaf);
  return leaf;
}

/** The first node at or below a place that is a leaf or has several children. */
function resolve(node: TreeNode, prefix: string): { readonly node: TreeNode; readonly prefix: string } {
  while (!(node instanceof Map) && node.children.size === 1) {
    const [digit, child]: [string, TreeNode] = node.children.entries().next().value!;
    prefix += digit;
    node = child;
  }
  return { node, prefix };
}

/** The node at a place, if that place has its own chain. */
function nodeWithChain(root: TreeNode, prefix: string): TreeNode | undefined {
  let node: TreeNode | undefined = root;
  for (let depth = 0; depth < prefix.length && node; depth++) {
    node = node instanceof Map ? undefined : node.children.get(prefix[depth]!);
  }
  if (prefix === "" || !node) return node;
  return countOf(node) > 1 && resolve(node, prefix).node === node ? node : undefined;
}

/** Renders the match for every destination whose place begins with `prefix`. */
function placeMatch(prefix: string, addressDigits: number): string {
  let match = "";
  if (addressDigits > 0) {
    const given = Math.min(prefix.length, addressDigits);
    const digits = prefix.slice(0, given).padEnd(addressDigits, "0");
    const bytes = Uint8Array.from(
      { length: addressDigits / 2 },
      (_, i) => parseInt(digits.slice(2 * i, 2 * i + 2), 16),
    );
    match += `-d ${addressOfBytes(bytes)}/${given * 4} `;
  }
  if (prefix.length <= addressDigits) return match;
  const protocol = PROTOCOLS[Number(prefix[addressDigits])]!;
  const port = prefix.slice(addressDigits + 1);
  if (port === "") return `${match}-p ${protocol} `;
  const lowest = parseInt(port.padEnd(PORT_DIGITS, "0"), 16);
  const highest = parseInt(port.padEnd(PORT_DIGITS, "f"), 16);
  return match + destinationPort(protocol, "", lowest === highest ? lowest : `${lowest}:${highest}`);
}
