import type { Family } from "../../../platform/address.ts";
import { ParameterProblem } from "./errors.ts";
import { type GivenOption, type MatchKind, matchKind, type PacketTest } from "./matches.ts";
import { parsePrefix } from "./prefix.ts";
import { type BuiltTarget, type Target, type TargetKind, targetKind, type TargetPlaces } from "./targets.ts";
import { PROTOCOL_NUMBERS } from "../packet.ts";

/** A parsed rule. */
export interface Rule {
  /** As iptables-save prints it, without `-A CHAIN `; rules are equal if their texts are. */
  readonly text: string;
  readonly tests: readonly PacketTest[];
  readonly target: Target;
  readonly places: TargetPlaces;
  /** Whether the kernel refuses it in any chain. */
  readonly isInvalid: boolean;
  /** The lists of its `recent` matches. */
  readonly recentLists: readonly string[];
  /** The packets and bytes that matched it. */
  readonly counter: { packets: number; bytes: number };
}

/** The chain of a rule. */
export interface RulePlace {
  readonly family: Family;
  readonly table: string;
  readonly chain: string;
}

interface OpenOptions<Kind> {
  readonly name: string;
  readonly kind: Kind;
  readonly given: Map<string, GivenOption>;
}

const PROTOCOLS: ReadonlyMap<string, number> = new Map<string, number>([
  ["all", 0],
  ...Object.entries(PROTOCOL_NUMBERS),
  ["icmpv6", PROTOCOL_NUMBERS["ipv6-icmp"]],
]);
const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(PROTOCOL_NUMBERS).map(([name, number]) => [number, name]),
);
const WITH_PORTS: readonly number[] = [PROTOCOL_NUMBERS.tcp, PROTOCOL_NUMBERS.udp, PROTOCOL_NUMBERS.sctp];

/** The built-in chains in which an interface option is invalid. */
const WITHOUT: Readonly<Record<string, readonly string[]>> = {
  "-i": ["OUTPUT", "POSTROUTING"],
  "-o": ["PREROUTING", "INPUT"],
};

const CANONICAL: Readonly<Record<string, string>> = {
  "-s": "-s",
  "--source": "-s",
  "--src": "-s",
  "-d": "-d",
  "--destination": "-d",
  "--dst": "-d",
  "-i": "-i",
  "--in-interface": "-i",
  "-o": "-o",
  "--out-interface": "-o",
  "-p": "-p",
  "--protocol": "-p",
  "--proto": "-p",
  "-m": "-m",
  "--match": "-m",
  "-j": "-j",
  "--jump": "-j",
  "-g": "-g",
  "--goto": "-g",
};

/** Parses a rule, the words after `-A CHAIN`. Throws iptables' errors. */
export function parseRule(words: readonly string[], place: RulePlace): Rule {
  const header = new Map<string, GivenOption>();
  const matches: OpenOptions<MatchKind>[] = [];
  let target: OpenOptions<TargetKind> | undefined;
  let jump: { readonly chain: string; readonly option: "-j" | "-g" } | undefined;
  let protocol = 0;
  let negated = false;

  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (word === "!") {
      negated = true;
      continue;
    }
    if (!word.startsWith("-")) throw new ParameterProblem(`Bad argument \`${word}'`, true);
    const valueOf = (takesValue: boolean, values = 1): GivenOption => {
      if (!takesValue) return { value: "", negated };
      const all = words.slice(i + 1, i + 1 + values);
      i += values;
      if (all.length < values) throw new ParameterProblem(`option "${word}" requires an argument`);
      return { value: all.join(" "), negated };
    };
    const option = CANONICAL[word];
    switch (option) {
      case undefined: {
        const owner = ownerOf(word, target, matches) ?? implicitMatch(word, protocol, matches);
        if (!owner) throw new ParameterProblem(`unknown option "${word}"`);
        const { name, takesValue, values }: MatchKind["options"][string] = owner.kind.options[word]!;
        owner.given.set(name, valueOf(takesValue, values));
        break;
      }
      case "-m": {
        const { value: name } = valueOf(true);
        matches.push({ name, kind: matchKind(name), given: new Map() });
        break;
      }
      case "-j":
      case "-g": {
        if (jump) throw new ParameterProblem(`multiple ${option} flags not allowed`);
        const { value: name } = valueOf(true);
        jump = { chain: name, option };
        const kind = targetKind(name);
        if (kind) target = { name, kind, given: new Map() };
        break;
      }
      default: {
        if (header.has(option)) throw new ParameterProblem(`multiple ${option} flags not allowed`);
        const given = valueOf(true);
        if (WITHOUT[option]?.includes(place.chain)) {
          throw new ParameterProblem(`Can't use ${option} with ${place.chain}\n`);
        }
        if (option === "-p") protocol = parseProtocol(given.value);
        header.set(option, given);
      }
    }
    negated = false;
  }

  if (place.table === "nat" && jump?.chain === "DROP") {
    throw new ParameterProblem(
      '\nThe "nat" table is not intended for filtering, the use of DROP is therefore inhibited.\n\n',
    );
  }
  return assemble(header, matches, target, jump, protocol, place.family);
}

function assemble(
  header: ReadonlyMap<string, GivenOption>,
  matches: readonly OpenOptions<MatchKind>[],
  open: OpenOptions<TargetKind> | undefined,
  jump: { readonly chain: string; readonly option: "-j" | "-g" } | undefined,
  protocol: number,
  family: Family,
): Rule {
  const tests: PacketTest[] = [];
  let text = "";
  const add = (option: string, given: GivenOption | undefined, printed: string | undefined, test: PacketTest) => {
    if (!given || printed === undefined) return;
    text += `${given.negated ? " !" : ""} ${option} ${printed}`;
    tests.push(given.negated ? (packet, context) => !test(packet, context) : test);
  };
  for (const [option, side] of [["-s", "source"], ["-d", "destination"]] as const) {
    const given = header.get(option);
    if (!given) continue;
    const prefix = parsePrefix(given.value, family);
    const isEverything = prefix.length === 0 && !given.negated;
    add(option, given, isEverything ? undefined : prefix.text, (packet) => prefix.contains(packet[side]));
  }
  for (const [option, side] of [["-i", "inInterface"], ["-o", "outInterface"]] as const) {
    const name = header.get(option)?.value;
    if (name === undefined) continue;
    const start = name.endsWith("+") ? name.slice(0, -1) : undefined;
    add(
      option,
      header.get(option),
      name,
      (packet) => start === undefined ? packet[side] === name : packet[side].startsWith(start),
    );
  }
  const givenProtocol = header.get("-p");
  if (protocol !== 0) {
    const printed = PROTOCOL_NAMES.get(protocol) ?? String(protocol);
    add("-p", givenProtocol, printed, (packet) => packet.protocol === protocol);
  }
  const requiredProtocol = givenProtocol?.negated ? 0 : protocol;

  let isInvalid = false;
  const recentLists: string[] = [];
  for (const { name, kind, given } of matches) {
    const built = kind.build(given, family);
    text += ` -m ${name}${built.text}`;
    tests.push(built.test);
    if (built.protocol !== undefined && built.protocol !== requiredProtocol) isInvalid = true;
    if (built.recentList !== undefined) recentLists.push(built.recentList);
  }

  let built: BuiltTarget | undefined;
  if (open) {
    built = open.kind.build(open.given, { family, hasPorts: WITH_PORTS.includes(requiredProtocol) });
    if (built.protocol !== undefined && built.protocol !== requiredProtocol) isInvalid = true;
  }
  if (jump) text += ` ${jump.option} ${jump.chain}${built?.text ?? ""}`;
  const target: Target = built?.target ??
    (jump ? { action: "jump", chain: jump.chain, returns: jump.option === "-j" } : { action: "nothing" });
  return {
    text: text.slice(1),
    tests,
    target,
    places: built?.places ?? {},
    isInvalid,
    recentLists,
    counter: { packets: 0, bytes: 0 },
  };
}

function ownerOf(
  option: string,
  target: OpenOptions<TargetKind> | undefined,
  matches: readonly OpenOptions<MatchKind>[],
): OpenOptions<TargetKind | MatchKind> | undefined {
  if (target && Object.hasOwn(target.kind.options, option)) return target;
  return matches.findLast(({ kind }) => Object.hasOwn(kind.options, option));
}

/** `-p tcp --dport 80` implies `-m tcp`. */
function implicitMatch(
  option: string,
  protocol: number,
  matches: OpenOptions<MatchKind>[],
): OpenOptions<MatchKind> | undefined {
  const name = WITH_PORTS.includes(protocol) ? PROTOCOL_NAMES.get(protocol)! : undefined;
  if (name === undefined || matches.some((match) => match.name === name)) return undefined;
  const match = { name, kind: matchKind(name), given: new Map<string, GivenOption>() };
  if (!Object.hasOwn(match.kind.options, option)) return undefined;
  matches.push(match);
  return match;
}

function parseProtocol(text: string): number {
  const number = PROTOCOLS.get(text) ?? (/^\d+$/.test(text) ? Number(text) : undefined);
  if (number === undefined || number > 255) throw new ParameterProblem(`unknown protocol "${text}" specified`);
  return number;
}
