import { prefixContains } from "../../platform/address.ts";
import type { NftTable } from "./nft_tables.ts";

/** The first packet of a connection. */
export interface NftPacket {
  readonly from: string;
  readonly to: string;
  readonly protocol: "tcp" | "udp" | "sctp";
  readonly port: number;
  /** The interface that it comes in by; undefined where this node sends it. */
  readonly inInterface?: string;
}

/** What becomes of a packet: where it goes, with its own source or this node's. */
export type NftOutcome =
  | { readonly kind: "delivered"; readonly to: string; readonly masqueraded: boolean }
  | { readonly kind: "rejected" | "dropped" };

/** What is asked beside the packet. */
export interface NftSituation {
  /** The node's own addresses. */
  readonly nodeAddresses: readonly string[];
  /** What `numgen random mod n` yields; the tests decide. */
  readonly random: (modulus: number) => number;
}

type Verdict = "accept" | "reject" | "drop" | undefined;

interface Travelling {
  packet: NftPacket;
  mark: number;
  rewrittenTo: string | undefined;
}

/** Sends the first packet of a connection through a table, hook by hook in the order of their priorities. */
export function sendThrough(table: NftTable, packet: NftPacket, situation: NftSituation): NftOutcome {
  const own = packet.inInterface === undefined;
  const state: Travelling = { packet, mark: 0, rewrittenTo: undefined };
  let masqueraded = false;
  const stage = (hook: string): NftOutcome | undefined => {
    for (const name of hooked(table, hook)) {
      const result = runChain(table, name, state, situation, () => masqueraded = true);
      if (result === "reject") return { kind: "rejected" };
      if (result === "drop") return { kind: "dropped" };
      if (state.rewrittenTo !== undefined && state.packet.to !== addressOf(state.rewrittenTo)) rewrite(state);
    }
    return undefined;
  };
  const isHere = () => situation.nodeAddresses.includes(state.packet.to);
  const stages = own ? [() => "output"] : [() => "prerouting", () => isHere() ? "input" : "forward"];
  for (const next of [...stages, () => "postrouting"]) {
    const hook = next();
    if (hook === "postrouting" && !own && isHere()) continue;
    const outcome = stage(hook);
    if (outcome) return outcome;
  }
  return { kind: "delivered", to: state.rewrittenTo ?? `${packet.to} . ${packet.port}`, masqueraded };
}

const addressOf = (target: string) => target.split(" . ")[0]!;

function rewrite(state: Travelling): void {
  const [to, port] = state.rewrittenTo!.split(" . ");
  state.packet = { ...state.packet, to: to!, port: Number(port) };
}

const PRIORITIES: Readonly<Record<string, number>> = { dstnat: -100, filter: 0, srcnat: 100 };

function hooked(table: NftTable, hook: string): string[] {
  const found: { name: string; priority: number }[] = [];
  for (const [name, chain] of table.chains) {
    const match = /^type \w+ hook (\w+) priority (-?\w+)(?: ([+-]) (\d+))?;/.exec(chain.hook ?? "");
    if (match?.[1] !== hook) continue;
    const base = PRIORITIES[match[2]!] ?? Number(match[2]);
    found.push({ name, priority: base + (match[3] === "-" ? -1 : 1) * Number(match[4] ?? 0) });
  }
  return found.sort((a, b) => a.priority - b.priority).map(({ name }) => name);
}

function runChain(
  table: NftTable,
  name: string,
  state: Travelling,
  situation: NftSituation,
  masquerade: () => void,
): Verdict {
  const chain = table.chains.get(name);
  if (!chain) throw new Error(`there is no chain ${name}`);
  const run = (other: string) => runChain(table, other, state, situation, masquerade);
  const { packet } = state;
  const field = (what: string): string => {
    switch (what.replace(/^ip6? /, "").trim()) {
      case "saddr":
        return packet.from;
      case "daddr":
        return packet.to;
      case "daddr & 0.0.0.0":
        return "0.0.0.0";
      case "daddr & ::":
        return "::";
      case "meta l4proto":
        return packet.protocol;
      case "th dport":
      case `${packet.protocol} dport`:
        return String(packet.port);
      default: {
        const modulus = /^numgen random mod (\d+)$/.exec(what)?.[1];
        if (modulus !== undefined) return String(situation.random(Number(modulus)));
        throw new Mismatch();
      }
    }
  };
  const key = (text: string) => text.split(" . ").map(field).join(" . ");
  const lookUp = (set: string, text: string): string | undefined => {
    const content = table.sets.get(set);
    if (!content) throw new Error(`there is no set ${set}`);
    const exact = content.elements.get(key(text));
    if (exact !== undefined || !content.lines.includes("flags interval")) return exact;
    const parts = key(text).split(" . ");
    const inside = [...content.elements.keys()].some((element) =>
      element.split(" . ").every((part, i) =>
        part === parts[i] || (part.includes("/") && prefixContains(part, parts[i]!))
      )
    );
    return inside ? "" : undefined;
  };
  const isAddress = (pattern: string, address: string) =>
    pattern.includes("/") ? prefixContains(pattern, address) : pattern === address;

  for (const rule of chain.rules) {
    try {
      const verdict = runRule(rule);
      if (verdict === "return") return undefined;
      if (verdict !== undefined) return verdict.verdict;
    } catch (error) {
      if (!(error instanceof Mismatch)) throw error;
    }
  }
  return undefined;

  /** What a rule decides: undefined lets the next one decide. Throws a mismatch where the rule does not apply. */
  function runRule(rule: string): { verdict: Verdict } | "return" | undefined {
    let rest = rule;
    const take = (pattern: RegExp): RegExpExecArray | undefined => {
      const match = pattern.exec(rest);
      if (!match || match.index !== 0) return undefined;
      rest = rest.slice(match[0].length).trimStart();
      return match;
    };
    const must = (holds: boolean) => {
      if (!holds) throw new Mismatch();
    };
    while (rest !== "") {
      let match: RegExpExecArray | undefined;
      if (take(/^ct state new\b/)) continue;
      if (take(/^ct state invalid\b/)) must(false);
      else if (take(/^ct status dnat\b/)) must(state.rewrittenTo !== undefined);
      else if ((match = take(/^fib (saddr|daddr) type local\b/))) {
        must(situation.nodeAddresses.includes(match[1] === "saddr" ? packet.from : packet.to));
      } else if ((match = take(/^iifname (!= )?"([^"]*)"/))) {
        const wanted = match[2]!, is = packet.inInterface ?? "";
        const equal = wanted.endsWith("*") ? is.startsWith(wanted.slice(0, -1)) : is === wanted;
        must(equal === (match[1] === undefined));
      } else if ((match = take(/^meta mark & (0x\w+) == 0x00000000/))) must((state.mark & Number(match[1])) === 0);
      else if ((match = take(/^meta mark set meta mark ([|&]) (0x\w+)/))) {
        state.mark = match[1] === "|" ? state.mark | Number(match[2]) : state.mark & Number(match[2]);
      } else if ((match = take(/^dnat ip6? to (.+ map @(\S+))$/))) {
        const target = lookUp(match[2]!, match[1]!.slice(0, match[1]!.indexOf(" map @")));
        must(target !== undefined);
        state.rewrittenTo = target;
        return { verdict: "accept" };
      } else if ((match = take(/^dnat to \[?([^\]]+?)\]?:(\d+)$/))) {
        state.rewrittenTo = `${match[1]} . ${match[2]}`;
        return { verdict: "accept" };
      } else if ((match = take(/^update @(\S+) \{ ip6? saddr \}/))) {
        table.sets.get(match[1]!)!.elements.set(packet.from, "");
      } else if ((match = take(/^meta l4proto (tcp|udp|sctp)\b(?! \.)/))) must(packet.protocol === match[1]);
      else if ((match = take(/^numgen random mod (\d+) (\d+)(?= )/))) {
        must(situation.random(Number(match[1])) === Number(match[2]));
      } else if ((match = take(/^ip6? (saddr|daddr) (!= )?([0-9a-f:.\/]*[0-9a-f:][0-9a-f:.\/]*)(?= )/))) {
        must(isAddress(match[3]!, match[1] === "saddr" ? packet.from : packet.to) === (match[2] === undefined));
      } else if ((match = take(/^(ip6? [^@]+?) vmap @(\S+)/))) {
        const verdict = lookUp(match[2]!, match[1]!);
        must(verdict !== undefined);
        return { verdict: run(verdict!.slice("goto ".length)) };
      } else if ((match = take(/^(ip6? [^@]+?) @(\S+)/))) must(lookUp(match[2]!, match[1]!) !== undefined);
      else if ((match = take(/^goto (\S+)/))) return { verdict: run(match[1]!) };
      else if ((match = take(/^jump (\S+)/))) {
        const verdict = run(match[1]!);
        if (verdict !== undefined) return { verdict };
      } else if (take(/^reject$/)) return { verdict: "reject" };
      else if (take(/^drop$/)) return { verdict: "drop" };
      else if (take(/^return$/)) return "return";
      else if (take(/^masquerade fully-random$/)) {
        masquerade();
        return { verdict: "accept" };
      } else throw new Error(`the fake does not know "${rest}" in "${rule}"`);
    }
    return undefined;
  }
}

/** A match of a rule does not hold. */
class Mismatch extends Error {}
