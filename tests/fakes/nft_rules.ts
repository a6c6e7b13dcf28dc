import { drawByHash, registersOf } from "./jhash.ts";
import { addressBytes, addressOfBytes, prefixContains } from "../../platform/address.ts";
import { type NftSet, type NftTable, sizeOf } from "./nft_tables.ts";
import { isLocal, type PacketProtocol, type Surroundings } from "./packet.ts";

/** The state besides the packet that rules depend on. */
export interface NftSituation {
  readonly surroundings: Surroundings;
  /** Decides an event of this probability. */
  readonly chance: (probability: number) => boolean;
  /** Returns the next number of the counter of a rule, by its chain and text (`numgen inc`). */
  readonly count: (rule: string, modulus: number) => number;
  /** The time of the host, in milliseconds. */
  readonly nowMs: () => number;
  /** Called when a rule adds an element to a set, or updates it; the timeout is the set's own by default. */
  readonly remember: (set: NftSet, key: string, timeout?: string) => void;
  /** Called when a rule counts a packet. */
  readonly counted: (counters: NftTable["counters"], name: string) => void;
}

/** The verdict of a chain; undefined if the packet reaches its end without one. */
export type Verdict = "accept" | "reject" | "drop" | undefined;

/** A packet that passes through the rules. */
export interface NftPacket {
  readonly from: string;
  readonly fromPort: number;
  readonly protocol: PacketProtocol;
  readonly state: string;
  /** Whether it answers the first packet of a TCP connection. */
  readonly isSynAck: boolean;
  /** Whether the destination was translated with the first packet of the connection. */
  readonly isTranslated: boolean;
  readonly flags: readonly string[];
  /** Empty if this node sends the packet, until it receives it. */
  inInterface: string;
  /** Whether its connection is tracked already. */
  readonly isRepeated: boolean;
  /** The destination before translation. */
  readonly original: { readonly to: string; readonly port: number };
  to: string;
  port: number;
  mark: number;
  rewrittenTo: string | undefined;
  masqueraded: boolean;
}

/** Runs a packet through a chain and the chains it jumps to. */
export function runChain(table: NftTable, name: string, packet: NftPacket, situation: NftSituation): Verdict {
  const chain = table.chains.get(name);
  if (!chain) throw new Error(`chain ${name} does not exist`);
  const run = (other: string) => runChain(table, other, packet, situation);
  const draw = (modulus: number): number => {
    let drawn = 0;
    while (!situation.chance(1 / (modulus - drawn))) drawn++;
    return drawn;
  };
  /** The number that an expression draws; undefined for another expression. */
  const drawn = (what: string, rule: string): number | undefined => {
    const [, kind, modulus, start = "0"] = /^numgen (random|inc) mod (\d+)(?: offset (\d+))?$/.exec(what) ?? [];
    if (kind !== undefined) {
      const counted = kind === "inc" ? situation.count(`${name} ${rule}`, Number(modulus)) : draw(Number(modulus));
      return counted + Number(start);
    }
    const hash = /^jhash ((?:(?! seed ).)+) mod (\d+) seed (0x\w+)(?: offset (\d+))?$/.exec(what);
    if (!hash) return undefined;
    const bytes = registersOf(hash[1]!.split(" . ").map((each) => field(each, rule)));
    return drawByHash(bytes, Number(hash[2]), Number(hash[3])) + Number(hash[4] ?? 0);
  };
  const field = (what: string, rule: string): string => {
    const constant = /^meta mark & (0x\w+) \| \1$/.exec(what);
    if (constant) return constant[1]!;
    const [, cut] = /^ip6? saddr & (\S+)$/.exec(what) ?? [];
    if (cut !== undefined) return masked(packet.from, cut);
    switch (what.replace(/^ip6? /, "").trim()) {
      case "saddr":
        return packet.from;
      case "daddr":
        return packet.to;
      case "daddr & 0.0.0.0":
        return "0.0.0.0";
      case "daddr & ::":
        return "::";
      case "ct original ip daddr":
      case "ct original ip6 daddr":
        return packet.original.to;
      case "ct original proto-dst":
        return String(packet.original.port);
      case "ct reply ip saddr":
      case "ct reply ip6 saddr":
        return packet.to;
      case "ct reply proto-src":
        return String(packet.port);
      case `${packet.protocol} sport`:
        return String(packet.fromPort);
      case "ct direction":
        return packet.isSynAck ? "reply" : "original";
      case "meta l4proto":
        return packet.protocol;
      case "th dport":
      case `${packet.protocol} dport`:
        return String(packet.port);
      default: {
        const number = drawn(what, rule);
        if (number !== undefined) return String(number);
        throw new Mismatch();
      }
    }
  };
  // The fields of a hash are separated like those of the key around it.
  const key = ({ lines }: NftSet, text: string, rule: string) => {
    const number = drawn(text, rule);
    if (number !== undefined) {
      return lines.includes("type mark") ? `0x${number.toString(16).padStart(8, "0")}` : String(number);
    }
    return text.split(/ \. (?!\w+ [ds]port mod)/).map((what) => field(what, rule)).join(" . ");
  };
  const lookUp = (set: string, text: string, rule: string): string | undefined => {
    const content = table.sets.get(set);
    if (!content) throw new Error(`set ${set} does not exist`);
    const wanted = key(content, text, rule), exact = content.elements.get(wanted);
    if (content.clients.has(wanted)) return content.clients.get(wanted)! > situation.nowMs() ? "" : undefined;
    return exact;
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

  /** The verdict of a rule; undefined continues with the next rule. Throws Mismatch if the rule does not match. */
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
      if ((match = take(/^ct state ([\w,]+)/))) must(match[1]!.split(",").includes(packet.state));
      else if (take(/^ct status dnat\b/)) must(packet.rewrittenTo !== undefined || packet.isTranslated);
      else if (take(/^ct status confirmed\b/)) must(packet.isRepeated);
      else if ((match = take(/^fib (saddr|daddr) type local\b/))) {
        must(isLocal(match[1] === "saddr" ? packet.from : packet.to, situation.surroundings));
      } else if ((match = take(/^iifname (!= )?"([^"]*)"/))) {
        const wanted = match[2]!, is = packet.inInterface;
        const equal = wanted.endsWith("*") ? is.startsWith(wanted.slice(0, -1)) : is === wanted;
        must(equal === (match[1] === undefined));
      } else if ((match = take(/^meta mark & (0x\w+) == 0x00000000/))) must((packet.mark & Number(match[1])) === 0);
      else if ((match = take(/^meta mark set meta mark ([|&]) (0x\w+)/))) {
        packet.mark = match[1] === "|" ? packet.mark | Number(match[2]) : packet.mark & Number(match[2]);
      } else if ((match = take(/^dnat ip6? to (.+ map @(\S+))$/))) {
        const target = lookUp(match[2]!, match[1]!.slice(0, match[1]!.indexOf(" map @")), rule);
        must(target !== undefined);
        packet.rewrittenTo = target;
        return { verdict: "accept" };
      } else if ((match = take(/^dnat to \[?([^\]]+?)\]?:(\d+)$/))) {
        packet.rewrittenTo = `${match[1]} . ${match[2]}`;
        return { verdict: "accept" };
      } else if ((match = take(/^update @(\S+) \{ ([^}]+?)(?: timeout (\w+))? \}/))) {
        const set = table.sets.get(match[1]!)!, element = key(set, match[2]!, rule);
        must(set.clients.has(element) || set.clients.size < sizeOf(set));
        situation.remember(set, element, match[3]);
      } else if (take(/^tcp flags syn,ack \/ syn,ack\b/)) must(packet.protocol === "tcp" && packet.isSynAck);
      else if ((match = take(/^tcp flags & \(([a-z |]+)\) == 0\b/))) {
        must(!match[1]!.split(" | ").some((flag) => packet.flags.includes(flag)));
      } else if ((match = take(/^counter name (\S+)/))) situation.counted(table.counters, match[1]!);
      else if ((match = take(/^meta l4proto (tcp|udp|sctp)\b(?! \.)/))) must(packet.protocol === match[1]);
      else if ((match = take(/^numgen random mod (\d+) (\d+)(?= )/))) {
        must(
          match[2] === "0" ? situation.chance(1 / Number(match[1])) : draw(Number(match[1])) === Number(match[2]),
        );
      } else if ((match = take(/^numgen random mod (\d+) < (\d+)(?= )/))) {
        must(situation.chance(Number(match[2]) / Number(match[1])));
      } else if ((match = take(/^((?:numgen|jhash) (?:(?! (?:update|dnat) )[^@])+) @(\S+)/))) {
        must(lookUp(match[2]!, match[1]!, rule) !== undefined);
      } else if ((match = take(/^((?:numgen|jhash) .+?) (\{ [\d, ]+ \}|< \d+|\d+)(?= (?:update|meta|dnat) )/))) {
        const number = drawn(match[1]!, rule), wanted = match[2]!;
        if (number === undefined) throw new Error(`the fake nft does not support "${match[1]}"`);
        must(
          wanted.startsWith("<") ? number < Number(wanted.slice(2)) : wanted.match(/\d+/g)!.includes(String(number)),
        );
      } else if ((match = take(/^ip6? (saddr|daddr) (!= )?([0-9a-f:.\/]*[0-9a-f:][0-9a-f:.\/]*)(?= )/))) {
        must(isAddress(match[3]!, match[1] === "saddr" ? packet.from : packet.to) === (match[2] === undefined));
      } else if ((match = take(/^(ip6? [^@]+?) vmap @(\S+)/))) {
        const verdict = lookUp(match[2]!, match[1]!, rule);
        must(verdict !== undefined);
        return { verdict: run(verdict!.slice("goto ".length)) };
      } else if ((match = take(/^ct reply ip6? saddr != (\S+)/))) {
        must(!isAddress(match[1]!, packet.to));
      } else if ((match = take(/^(ct original ip6? daddr) != @(\S+)/))) {
        must(lookUp(match[2]!, match[1]!, rule) === undefined);
      } else if ((match = take(/^((?:ct original )?ip6? [^@]+?) @(\S+)/))) {
        must(lookUp(match[2]!, match[1]!, rule) !== undefined);
      } else if ((match = take(/^goto (\S+)/))) return { verdict: run(match[1]!) };
      else if ((match = take(/^jump (\S+)/))) {
        const verdict = run(match[1]!);
        if (verdict !== undefined) return { verdict };
      } else if (take(/^reject$/)) return { verdict: "reject" };
      else if (take(/^reject with tcp reset$/)) return { verdict: "reject" };
      else if (take(/^ct direction original\b/)) must(!packet.isSynAck);
      else if (take(/^drop$/)) return { verdict: "drop" };
      else if (take(/^return$/)) return "return";
      else if (take(/^masquerade fully-random$/)) {
        packet.masqueraded = true;
        return { verdict: "accept" };
      } else throw new Error(`the fake nft does not support "${rest}" in "${rule}"`);
    }
    return undefined;
  }
}

/** An address with only the bits of a mask. */
function masked(address: string, mask: string): string {
  const bits = addressBytes(mask);
  return addressOfBytes(addressBytes(address).map((byte, i) => byte & bits[i]!));
}

/** A packet does not match a rule. */
class Mismatch extends Error {}
