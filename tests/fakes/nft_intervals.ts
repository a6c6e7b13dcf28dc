/** Interval sets of nftables, whose elements may contain prefixes. */
import { addressBytes, addressOfBytes, canonicalPrefix, prefixContains } from "../../platform/address.ts";

/** A key as nft prints it: prefixes without host bits, and single addresses without a length. */
export function printedKey(key: string): string {
  return key.split(" . ").map((part) => {
    const prefix = part.includes("/") ? canonicalPrefix(part) ?? part : part;
    return prefix.replace(prefix.includes(":") ? /\/128$/ : /\/32$/, "");
  }).join(" . ");
}

/**
 * Whether the kernel refuses an element because its first or last value lies in another one. The kernel accepts an element
 * around another one if they share no end.
 */
export function overlaps(key: string, others: Iterable<string>): boolean {
  const parts = key.split(" . "), first = parts.map(firstOf), last = parts.map(lastOf);
  for (const other of others) {
    const otherParts = other.split(" . ");
    const isWithin = (values: readonly string[]) => otherParts.every((part, i) => covers(part, values[i]!));
    if (isWithin(first) || isWithin(last)) return true;
  }
  return false;
}

function covers(part: string, value: string): boolean {
  return part === value || (part.includes("/") && prefixContains(part, value));
}

function firstOf(part: string): string {
  return part.includes("/") ? part.slice(0, part.indexOf("/")) : part;
}

function lastOf(part: string): string {
  if (!part.includes("/")) return part;
  const bytes = addressBytes(firstOf(part));
  for (let bit = Number(part.slice(part.indexOf("/") + 1)); bit < bytes.length * 8; bit++) {
    bytes[bit >> 3]! |= 0x80 >> (bit & 7);
  }
  return addressOfBytes(bytes);
}
