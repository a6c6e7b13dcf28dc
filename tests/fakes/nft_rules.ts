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

/** A packet in a chain. */
interface Passage {
  readonly table: NftTable;
  readonly chain: string;
  readonly packet: NftPacket;
  readonly situation: NftSituation;
}

/** The end of a packet's way through a chain; without a verdict, it returns to the chain that it came from. */
interface End {
  readonly verdict: Verdict;
}

/** A statement of a rule: whether the packet matches, so that the next statement follows, or the end. */
type Statement = (passage: Passage) => boolean | End;

/** An expression; undefined if the packet has no such field: then it does not match. */
type Expression<T> = (passage: Passage) => T | undefined;

/** Runs a packet through a chain and the chains it jumps to. */
export function runChain(table: NftTable, name: string, packet: NftPacket, situation: NftSituation): Verdict {
  const chain = table.chains.get(name);
  if (!chain) throw new Error(`chain ${name} does not exist`);
  const passage = { table, chain: name, packet, situation };
  for (const statements of parsedRules(chain.rules)) {
    for (const statement of statements) {
      const end = statement(passage);
      if (end === false) break;
      if (end !== true) return end.verdict;
    }
  }
  return undefined;
}

/** Each rule is parsed once: packets of one test pass through the same rules thousands of times. */
const parsed = new WeakMap<readonly string[], readonly (readonly Statement[])[]>();

function parsedRules(rules: readonly string[]): readonly (readonly Statement[])[] {
  const known = parsed.get(rules);
  if (known) return known;
  const statements = rules.map((rule) => statementsOf(rule));
  parsed.set(rules, statements);
  return statements;
}

function statementsOf(rule: string, rest = rule): readonly Statement[] {
  if (rest === "") return [];
  for (const [pattern, parse] of STATEMENTS) {
    const match = pattern.exec(rest);
    if (match) return [parse(match, rule), ...statementsOf(rule, rest.slice(match[0].length).trimStart())];
  }
  throw new Error(`the fake nft does not support "${rest}" in "${rule}"`);
}

const ACCEPT: End = { verdict: "accept" };
const REJECT: End = { verdict: "reject" };
const DROP: End = { verdict: "drop" };
const RETURN: End = { verdict: undefined };

/** The statements by their text, in the order in which they are tried. */
const STATEMENTS: readonly (readonly [RegExp, (match: RegExpExecArray, rule: string) => Statement])[] = [
  [/^ct state ([\w,]+)/, ([, states]) => {
    const wanted = states!.split(",");
    return ({ packet }) => wanted.includes(packet.state);
  }],
  [/^ct status dnat\b/, () => ({ packet }) => packet.rewrittenTo !== undefined || packet.isTranslated],
  [/^ct status confirmed\b/, () => ({ packet }) => packet.isRepeated],
  [
    /^fib (saddr|daddr) type local\b/,
    ([, side]) => ({ packet, situation }) =>
      isLocal(side === "saddr" ? packet.from : packet.to, situation.surroundings),
  ],
  [/^iifname (!= )?"([^"]*)"/, ([, not, wanted]) => {
    const start = wanted!.endsWith("*") ? wanted!.slice(0, -1) : undefined;
    return ({ packet: { inInterface } }) =>
      (start === undefined ? inInterface === wanted : inInterface.startsWith(start)) === (not === undefined);
  }],
  [/^meta mark & (0x\w+) == 0x00000000/, ([, bits]) => ({ packet }) => (packet.mark & Number(bits)) === 0],
  [/^meta mark set meta mark ([|&]) (0x\w+)/, ([, operator, bits]) => ({ packet }) => {
    packet.mark = operator === "|" ? packet.mark | Number(bits) : packet.mark & Number(bits);
    return true;
  }],
  [/^dnat ip6? to (.+) map @(\S+)$/, ([, key, map], rule) => {
    const find = lookUp(map!, key!, rule);
    return (passage) => {
      const target = find(passage);
      if (target === undefined) return false;
      passage.packet.rewrittenTo = target;
      return ACCEPT;
    };
  }],
  [/^dnat to \[?([^\]]+?)\]?:(\d+)$/, ([, address, port]) => ({ packet }) => {
    packet.rewrittenTo = `${address} . ${port}`;
    return ACCEPT;
  }],
  [/^update @(\S+) \{ ([^}]+?)(?: timeout (\w+))? \}/, ([, name, text, timeout], rule) => {
    const keyIn = keyOf(text!, rule);
    return (passage) => {
      const set = passage.table.sets.get(name!)!, element = keyIn(passage, set);
      if (element === undefined || !set.clients.has(element) && set.clients.size >= sizeOf(set)) return false;
      passage.situation.remember(set, element, timeout);
      return true;
    };
  }],
  [/^tcp flags syn,ack \/ syn,ack\b/, () => ({ packet }) => packet.protocol === "tcp" && packet.isSynAck],
  [/^tcp flags & \(([a-z |]+)\) == 0\b/, ([, flags]) => {
    const unwanted = flags!.split(" | ");
    return ({ packet }) => !unwanted.some((flag) => packet.flags.includes(flag));
  }],
  [/^counter name (\S+)/, ([, name]) => ({ table, situation }) => {
    situation.counted(table.counters, name!);
    return true;
  }],
  [/^meta l4proto (tcp|udp|sctp)\b(?! \.)/, ([, protocol]) => ({ packet }) => packet.protocol === protocol],
  [
    /^numgen random mod (\d+) (\d+)(?= )/,
    ([, modulus, wanted]) => ({ situation: { chance } }) =>
      wanted === "0" ? chance(1 / Number(modulus)) : draw(chance, Number(modulus)) === Number(wanted),
  ],
  [
    /^numgen random mod (\d+) < (\d+)(?= )/,
    ([, modulus, bound]) => ({ situation: { chance } }) => chance(Number(bound) / Number(modulus)),
  ],
  [/^((?:numgen|jhash) (?:(?! (?:update|dnat) )[^@])+) @(\S+)/, isIn],
  [/^((?:numgen|jhash) .+?) (\{ [\d, ]+ \}|< \d+|\d+)(?= (?:update|meta|dnat) )/, ([, text, wanted], rule) => {
    const number = numberOf(text!, rule);
    if (number === undefined) throw new Error(`the fake nft does not support "${text}"`);
    const bound = wanted!.startsWith("<") ? Number(wanted!.slice(2)) : undefined;
    const numbers = wanted!.match(/\d+/g)!.map(Number);
    return (passage) => {
      const drawn = number(passage);
      return drawn !== undefined && (bound === undefined ? numbers.includes(drawn) : drawn < bound);
    };
  }],
  [
    /^ip6? (saddr|daddr) (!= )?([0-9a-f:.\/]*[0-9a-f:][0-9a-f:.\/]*)(?= )/,
    ([, side, not, pattern]) => ({ packet }) =>
      isAddress(pattern!, side === "saddr" ? packet.from : packet.to) === (not === undefined),
  ],
  [/^(ip6? [^@]+?) vmap @(\S+)/, ([, key, map], rule) => {
    const find = lookUp(map!, key!, rule);
    return (passage) => {
      const verdict = find(passage);
      return verdict !== undefined && { verdict: runIn(passage, verdict.slice("goto ".length)) };
    };
  }],
  [/^ct reply ip6? saddr != (\S+)/, ([, pattern]) => ({ packet }) => !isAddress(pattern!, packet.to)],
  [/^(ct original ip6? daddr) != @(\S+)/, ([, key, set], rule) => {
    const find = lookUp(set!, key!, rule);
    return (passage) => find(passage) === undefined;
  }],
  [/^((?:ct original )?ip6? [^@]+?) @(\S+)/, isIn],
  [/^goto (\S+)/, ([, chain]) => (passage) => ({ verdict: runIn(passage, chain!) })],
  [/^jump (\S+)/, ([, chain]) => (passage) => {
    const verdict = runIn(passage, chain!);
    return verdict === undefined || { verdict };
  }],
  [/^reject(?: with tcp reset)?$/, () => () => REJECT],
  [/^ct direction original\b/, () => ({ packet }) => !packet.isSynAck],
  [/^drop$/, () => () => DROP],
  [/^return$/, () => () => RETURN],
  [/^masquerade fully-random$/, () => ({ packet }) => {
    packet.masqueraded = true;
    return ACCEPT;
  }],
];

function runIn({ table, packet, situation }: Passage, chain: string): Verdict {
  return runChain(table, chain, packet, situation);
}

function isAddress(pattern: string, address: string): boolean {
  return pattern.includes("/") ? prefixContains(pattern, address) : pattern === address;
}

/** Parses "KEY @SET". */
function isIn([, key, set]: RegExpExecArray, rule: string): Statement {
  const find = lookUp(set!, key!, rule);
  return (passage) => find(passage) !== undefined;
}

/** The value of a key in a set or map, "" in a set. */
function lookUp(name: string, text: string, rule: string): Expression<string> {
  const keyIn = keyOf(text, rule);
  return (passage) => {
    const set = passage.table.sets.get(name);
    if (!set) throw new Error(`set ${name} does not exist`);
    const key = keyIn(passage, set);
    if (key === undefined) return undefined;
    const expiresMs = set.clients.get(key);
    if (expiresMs !== undefined) return expiresMs > passage.situation.nowMs() ? "" : undefined;
    return set.elements.get(key);
  };
}

/** The key of these fields, as a set has it; the fields of a hash are separated like those of the key around it. */
function keyOf(text: string, rule: string): (passage: Passage, set: NftSet) => string | undefined {
  const number = numberOf(text, rule);
  if (number === undefined) return joined(text.split(/ \. (?!\w+ [ds]port mod)/), rule);
  return (passage, { lines }) => {
    const drawn = number(passage);
    if (drawn === undefined) return undefined;
    return lines.includes("type mark") ? `0x${drawn.toString(16).padStart(8, "0")}` : String(drawn);
  };
}

function joined(fields: readonly string[], rule: string): Expression<string> {
  const values = valuesOf(fields, rule);
  return (passage) => values(passage)?.join(" . ");
}

function valuesOf(fields: readonly string[], rule: string): Expression<readonly string[]> {
  const expressions = fields.map((what) => fieldOf(what, rule));
  return (passage) => {
    const values: string[] = [];
    for (const expression of expressions) {
      const value = expression(passage);
      if (value === undefined) return undefined;
      values.push(value);
    }
    return values;
  };
}

/** The number that an expression draws; undefined for another expression. */
function numberOf(what: string, rule: string): Expression<number> | undefined {
  const [, kind, modulus, start = "0"] = /^numgen (random|inc) mod (\d+)(?: offset (\d+))?$/.exec(what) ?? [];
  if (kind === "inc") {
    return ({ chain, situation }) => situation.count(`${chain} ${rule}`, Number(modulus)) + Number(start);
  }
  if (kind === "random") return ({ situation }) => draw(situation.chance, Number(modulus)) + Number(start);
  const hash = /^jhash ((?:(?! seed ).)+) mod (\d+) seed (0x\w+)(?: offset (\d+))?$/.exec(what);
  if (!hash) return undefined;
  const values = valuesOf(hash[1]!.split(" . "), rule), first = Number(hash[4] ?? 0);
  return (passage) => {
    const fields = values(passage);
    return fields && drawByHash(registersOf(fields), Number(hash[2]), Number(hash[3])) + first;
  };
}

function draw(chance: NftSituation["chance"], modulus: number): number {
  let drawn = 0;
  while (!chance(1 / (modulus - drawn))) drawn++;
  return drawn;
}

const FIELDS: Readonly<Record<string, Expression<string>>> = {
  "saddr": ({ packet }) => packet.from,
  "daddr": ({ packet }) => packet.to,
  "daddr & 0.0.0.0": () => "0.0.0.0",
  "daddr & ::": () => "::",
  "ct original ip daddr": ({ packet }) => packet.original.to,
  "ct original ip6 daddr": ({ packet }) => packet.original.to,
  "ct original proto-dst": ({ packet }) => String(packet.original.port),
  "ct reply ip saddr": ({ packet }) => packet.to,
  "ct reply ip6 saddr": ({ packet }) => packet.to,
  "ct reply proto-src": ({ packet }) => String(packet.port),
  "ct direction": ({ packet }) => packet.isSynAck ? "reply" : "original",
  "meta l4proto": ({ packet }) => packet.protocol,
  "th dport": ({ packet }) => String(packet.port),
};

function fieldOf(what: string, rule: string): Expression<string> {
  const [, constant] = /^meta mark & (0x\w+) \| \1$/.exec(what) ?? [];
  if (constant !== undefined) return () => constant;
  const [, cut] = /^ip6? saddr & (\S+)$/.exec(what) ?? [];
  if (cut !== undefined) return ({ packet }) => masked(packet.from, cut);
  const [, protocol, side] = /^(tcp|udp|sctp) (sport|dport)$/.exec(what.trim()) ?? [];
  if (protocol !== undefined) {
    return ({ packet }) =>
      packet.protocol === protocol ? String(side === "sport" ? packet.fromPort : packet.port) : undefined;
  }
  const number = numberOf(what, rule);
  if (number !== undefined) return (passage) => number(passage)?.toString();
  const field = FIELDS[what.replace(/^ip6? /, "").trim()];
  if (!field) throw new Error(`the fake nft does not support "${what}" in "${rule}"`);
  return field;
}

/** An address with only the bits of a mask. */
function masked(address: string, mask: string): string {
  const bits = addressBytes(mask);
  return addressOfBytes(addressBytes(address).map((byte, i) => byte & bits[i]!));
}
