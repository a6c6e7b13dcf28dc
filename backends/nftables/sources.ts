/**
 * Source ranges as elements: a set has the network and the length of each range, and a chain has a rule for each length, which cuts
 * the packet's source to it. nft reads all interval sets of a host again for each transaction, and the kernel copies a set of
 * concatenated intervals that changes: 10 ms with 2,000 ranges, and the square of that with more.
 *
 * Few ranges have an element for each frontend, all in one set. A list of many ranges, or of many frontends, has a set of its own,
 * which all frontends with the same list share.
 */
import type { FamilySettings } from "../../core/model/mod.ts";
import { addressOfBytes } from "../../platform/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { countFailure } from "./counters.ts";
import type { SourceListName } from "./sets.ts";
import { type Dialect, frontendKey, hexText } from "./table.ts";

/** The maximum number of ranges that have an element for each frontend. */
const MOST_OWN_RANGES = 100;
/** The maximum number of lengths in the name of a chain; one for more looks for every length. */
const MOST_LENGTHS = 16;

/** The ranges that admit sources to a frontend. */
interface SourceRanges {
  /** The chain that admits their sources. */
  readonly chain: string;
  /** The set of a list; undefined if the frontend has elements of its own. */
  readonly list: SourceListName | undefined;
  /** The elements, after those fields that name the frontend. */
  readonly elements: readonly string[];
}

/** Ports of a service share one list, which may have thousands of ranges. */
const known = new WeakMap<readonly string[], Map<boolean, SourceRanges>>();

/**
 * The ranges of a frontend.
 * @param hasMany whether the service port has many frontends with these ranges
 */
export function sourceRanges(prefixes: readonly string[], hasMany: boolean): SourceRanges {
  const before = known.get(prefixes) ?? new Map<boolean, SourceRanges>();
  known.set(prefixes, before);
  let ranges = before.get(hasMany);
  if (ranges === undefined) before.set(hasMany, ranges = rangesOf(prefixes, hasMany));
  return ranges;
}

/** The lengths of prefixes as nft prints them. */
const LENGTH_TEXTS = Array.from({ length: 129 }, (_, length) => hexText(length));

function rangesOf(prefixes: readonly string[], hasMany: boolean): SourceRanges {
  const lengths = new Set<number>(), elements = new Set<string>();
  for (const prefix of prefixes) {
    const slash = prefix.indexOf("/"), length = Number(prefix.slice(slash + 1));
    lengths.add(length);
    elements.add(`${prefix.slice(0, slash)} . ${LENGTH_TEXTS[length]}`);
  }
  const sorted = [...lengths].sort((a, b) => a - b);
  const chain = `sources-${lengths.size > MOST_LENGTHS ? "all" : sorted.join("-")}`;
  if (!hasMany && elements.size <= MOST_OWN_RANGES) return { chain, list: undefined, elements: [...elements] };
  const hash = shortHash([...elements].sort().join());
  return { chain: `${chain}-${hash}`, list: `sources-${hash}`, elements: [...elements] };
}

const CHAIN = /^sources-(all|\d+(?:-\d+)*)(?:-([A-Z2-7]{16}))?$/;

/** The rules of the chain with this name: it drops packets from other sources. Undefined if no chain of sources has the name. */
export function sourceRules(name: string, settings: FamilySettings, dialect: Dialect): string[] | undefined {
  const { ip } = dialect, [, lengths, hash] = CHAIN.exec(name) ?? [], longest = ip === "ip" ? 32 : 128;
  if (lengths === undefined) return undefined;
  const all = lengths === "all" ? Array.from({ length: longest }, (_, i) => i + 1) : lengths.split("-").map(Number);
  const frontend = hash === undefined ? `${frontendKey(dialect, false)} . ` : "";
  const set = hash === undefined ? "sources" : `sources-${hash}`;
  const admitted = all.map((length) => {
    const network = `${ip} saddr${length === longest ? "" : ` & ${maskText(length, longest)}`}`;
    // nft has no other constant of a fixed size in a key.
    const constant = `meta mark & ${hexText(length)} | ${hexText(length)}`;
    return `${frontend}${network} . ${constant} @${set} return`;
  });
  return [...admitted, `${countFailure(settings, "sources", dialect)}drop`];
}

/** The mask of a prefix of this length. */
function maskText(length: number, longest: number): string {
  const bytes = Uint8Array.from({ length: longest / 8 }, (_, i) => 0xff00 >> Math.min(8, Math.max(0, length - 8 * i)));
  return addressOfBytes(bytes);
}
