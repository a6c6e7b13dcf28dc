/**
 * Parts of rules, spelled and ordered exactly as iptables-save (1.8, both flavours) prints them, so that chains can be
 * compared as text: `[! -s] [-d] [-i] -p, matches in order, -j`.
 */
import type { Family, LocalTraffic, Protocol } from "../../core/model/mod.ts";

/** The loopback prefix of each family. */
export const LOOPBACK: Readonly<Record<Family, string>> = { IPv4: "127.0.0.0/8", IPv6: "::1/128" };

/** A comment. The text must hold no quotes, backslashes or control characters. */
export function comment(text: string): string {
  return `-m comment --comment "${text}" `;
}

/**
 * A match for traffic of this node's pods (`local`) or for any other traffic (`!local`), by its two possible places in a rule:
 * source prefix and incoming interface. Undefined if local traffic cannot be detected.
 */
export function localMatch(
  traffic: LocalTraffic,
  local: boolean,
): { readonly source: string; readonly inInterface: string } | undefined {
  const not = local ? "" : "! ";
  switch (traffic.by) {
    case "none":
      return undefined;
    case "source-prefix":
      return { source: `${not}-s ${traffic.prefix} `, inInterface: "" };
    case "bridge":
      return { source: "", inInterface: `${not}-i ${traffic.interface} ` };
    case "interface-prefix":
      return { source: "", inInterface: `${not}-i ${traffic.prefix}+ ` };
  }
}

/** `-p tcp ` … `-m tcp --dport 80 `, with the matches in between. */
export function destinationPort(protocol: Protocol, between: string, port: number | string): string {
  return `-p ${protocol} ${between}-m ${protocol} --dport ${port} `;
}

/** Matches with a probability of 1 / `left`; empty for the last choice. */
export function oneOf(left: number): string {
  return chances[left] ??= shareOf(1, left);
}

/** A match with the probability `part` / `whole`, rounded to 31 bits as iptables prints it; empty for the whole. */
export function shareOf(part: number, whole: number): string {
  if (part >= whole) return "";
  return `-m statistic --mode random --probability ${probabilityText(Math.round(0x80000000 * part / whole))} `;
}

/** A probability of `kept` / 2^31 in 11 decimals, rounded as by C's printf: a tie goes to the even digit. */
function probabilityText(kept: number): string {
  const scaled = BigInt(kept) * 10n ** 11n;
  const rest = scaled & 0x7fffffffn;
  let digits = scaled >> 31n;
  if (rest > 0x40000000n || (rest === 0x40000000n && digits % 2n === 1n)) digits++;
  return `0.${digits.toString().padStart(11, "0")}`;
}

/** The texts of `oneOf`, by what is left. */
const chances: string[] = [];

/** Matches packets with the mark, or without it. */
export function marked(mark: number, has: boolean): string {
  const value = `0x${mark.toString(16)}`;
  return `-m mark ${has ? "" : "! "}--mark ${value}/${value} `;
}
