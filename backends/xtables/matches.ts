/**
 * The pieces of rules, each spelled and ordered exactly as iptables-save (1.8, both flavours) prints it, so that a
 * chain in the kernel can be compared with a chain as text: `[! -s] [-d] [-i] -p, matches in order, -j`.
 */
import type { Family, LocalTraffic, Protocol } from "../../core/model/mod.ts";

/** The addresses that stay on the node. */
export const LOOPBACK: Readonly<Record<Family, string>> = { IPv4: "127.0.0.0/8", IPv6: "::1/128" };

/** A comment. The text must hold no quotes, backslashes or control characters. */
export function comment(text: string): string {
  return `-m comment --comment "${text}" `;
}

/**
 * Traffic that this node's pods send (`local`), or any other (`!local`), as source prefix and incoming interface:
 * the two places of a rule that it may occupy. Undefined where local traffic cannot be told.
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

/** `-p tcp ` … `-m tcp --dport 80 `, with what goes in between. */
export function destinationPort(protocol: Protocol, between: string, port: number | string): string {
  return `-p ${protocol} ${between}-m ${protocol} --dport ${port} `;
}

/**
 * One of `left` equal chances, none for the last. iptables keeps the probability in 31 bits and prints those back, so
 * it is rounded in the same way here.
 */
export function oneOf(left: number): string {
  if (left <= 1) return "";
  let text = chances[left];
  if (text === undefined) {
    const kept = Math.round(0x80000000 / left);
    chances[left] = text = `-m statistic --mode random --probability ${probabilityText(kept)} `;
  }
  return text;
}

/**
 * A probability of `kept` / 2^31 in 11 decimals, as C's printf rounds it: a tie goes to the even digit (1/4096 is
 * 0.00024414062), where `toFixed` goes up.
 */
function probabilityText(kept: number): string {
  const scaled = BigInt(kept) * 10n ** 11n;
  const rest = scaled & 0x7fffffffn;
  let digits = scaled >> 31n;
  if (rest > 0x40000000n || (rest === 0x40000000n && digits % 2n === 1n)) digits++;
  return `0.${digits.toString().padStart(11, "0")}`;
}

const chances: (string | undefined)[] = [];

/** Packets that carry the mark, or do not. */
export function marked(mark: number, has: boolean): string {
  const value = `0x${mark.toString(16)}`;
  return `-m mark ${has ? "" : "! "}--mark ${value}/${value} `;
}
