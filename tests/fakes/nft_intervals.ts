/** Interval sets of nftables, whose elements may contain prefixes. */
import { canonicalPrefix, prefixContains } from "../../platform/address.ts";

/** A key as nft prints it: prefixes without host bits, and single addresses without a length. */
export function printedKey(key: string): string {
  return key.split(" . ").map((part) => {
    const prefix = part.includes("/") ? canonicalPrefix(part) ?? part : part;
    return prefix.replace(prefix.includes(":") ? /\/128$/ : /\/32$/, "");
  }).join(" . ");
}

/** Whether a prefix or address shares an address with another one, which nft refuses. */
export function overlaps(key: string, others: Iterable<string>): boolean {
  for (const other of others) if (covers(key, other) || covers(other, key)) return true;
  return false;
}

/** Whether an element contains the first address of another one. */
export function covers(element: string, other: string): boolean {
  return element === other || (element.includes("/") && prefixContains(element, other.split("/", 1)[0]!));
}
