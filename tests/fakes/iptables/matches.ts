import type { Family } from "../../../platform/address.ts";
import { parseBpf } from "./bpf.ts";
import { ParameterProblem, Unsupported } from "./errors.ts";
import { bytesOf, printAddress } from "./prefix.ts";
import type { RecentLists } from "./recent.ts";
import { PROTOCOL_NUMBERS } from "../packet.ts";
import type { PacketAddress, PacketInFlight } from "./packet.ts";

/** The state besides the packet that matches depend on. */
export interface MatchContext {
  isLocal(address: PacketAddress): boolean;
  /** Decides an event of this probability. */
  chance(probability: number): boolean;
  readonly recent: RecentLists;
  /** Whether a set contains a packet, looked up by these sides of it. */
  isInSet(set: string, packet: PacketInFlight, sides: readonly string[]): boolean;
}

/** Whether a packet matches. */
export type PacketTest = (packet: PacketInFlight, context: MatchContext) => boolean;

/** The value of an option. */
export interface GivenOption {
  readonly value: string;
  readonly negated: boolean;
}

/** A parsed match. */
export interface BuiltMatch {
  /** The options after `-m NAME` as iptables-save prints them, with a space before each word. */
  readonly text: string;
  readonly test: PacketTest;
  /** The protocol that the rule must have. */
  readonly protocol?: number;
  /** The list of a `recent` match. */
  readonly recentList?: string;
}

/** A kind of match: `-m NAME`. */
export interface MatchKind {
  /** The options by every spelling: canonical name, and whether a value follows. */
  readonly options: Readonly<
    Record<
      string,
      { readonly name: string; readonly takesValue: boolean; /** One by default. */ readonly values?: number }
    >
  >;
  build(given: ReadonlyMap<string, GivenOption>, family: Family): BuiltMatch;
}

/** Matches of the real iptables that the fake does not support. */
const UNSUPPORTED = new Set(
  ("ah bpf-object cgroup cluster connbytes connlabel connlimit connmark cpu dscp devgroup ecn esp hashlimit helper icmp " +
    "icmp6 iprange length limit mac multiport nfacct owner physdev pkttype policy quota rateest realm rpfilter " +
    "socket state string tcpmss time tos ttl u32").split(" "),
);

const value = (name: string) => ({ [name]: { name, takesValue: true } });
const flag = (name: string) => ({ [name]: { name, takesValue: false } });
const not = (given: GivenOption) => given.negated ? " !" : "";

const KINDS: Readonly<Record<string, MatchKind>> = {
  tcp: ports("tcp"),
  udp: ports("udp"),
  sctp: ports("sctp"),
  comment: {
    options: value("--comment"),
    build(given) {
      const comment = given.get("--comment");
      if (!comment) throw new ParameterProblem('comment: option "--comment" must be specified\n');
      return { text: ` --comment ${quote(comment.value)}`, test: () => true };
    },
  },
  addrtype: {
    options: { ...value("--src-type"), ...value("--dst-type") },
    build(given) {
      const source = given.get("--src-type"), destination = given.get("--dst-type");
      if (!source && !destination) {
        throw new ParameterProblem("addrtype: you must specify --src-type or --dst-type");
      }
      const ofSource = source && addressTypeTest(source), ofDestination = destination && addressTypeTest(destination);
      return {
        text: (source ? `${not(source)} --src-type ${source.value}` : "") +
          (destination ? `${not(destination)} --dst-type ${destination.value}` : ""),
        test: (packet, context) =>
          (!ofSource || ofSource(packet.source, context)) &&
          (!ofDestination || ofDestination(packet.destination, context)),
      };
    },
  },
  conntrack: {
    options: value("--ctstate"),
    build(given) {
      const wanted = given.get("--ctstate");
      if (!wanted) throw new ParameterProblem("conntrack: At least one option is required");
      const names = wanted.value.split(",");
      for (const name of names) {
        if (!STATES.includes(name)) throw new ParameterProblem(`Bad ctstate "${name}"`);
      }
      const holds = (packet: PacketInFlight) =>
        names.includes(packet.state) || (packet.dnat && names.includes("DNAT")) ||
        (packet.masqueraded && names.includes("SNAT"));
      return {
        text: `${not(wanted)} --ctstate ${STATES.filter((name) => names.includes(name)).join(",")}`,
        test: (packet) => holds(packet) !== wanted.negated,
      };
    },
  },
  mark: {
    options: value("--mark"),
    build(given) {
      const mark = given.get("--mark");
      if (!mark) throw new ParameterProblem('mark: option "--mark" must be specified\n');
      const { number, mask } = parseMasked("mark", "--mark", mark.value);
      return {
        text: `${not(mark)} --mark 0x${number.toString(16)}${mask === 0xffffffff ? "" : `/0x${mask.toString(16)}`}`,
        test: (packet) => (((packet.mark & mask) >>> 0) === number) !== mark.negated,
      };
    },
  },
  statistic: {
    options: { ...value("--mode"), ...value("--probability") },
    build(given) {
      const mode = given.get("--mode"), probability = given.get("--probability");
      if (mode?.value !== "random") throw new Unsupported(`-m statistic --mode ${mode?.value ?? ""}`);
      if (!probability) throw new ParameterProblem("--probability must be specified when using random mode");
      const requested = Number(probability.value);
      if (!(requested >= 0 && requested <= 1) || probability.value === "") {
        throw new ParameterProblem('statistic: bad value for option "--probability", or out of range (0-1).\n');
      }
      const kept = Math.round(requested * 0x80000000) / 0x80000000;
      const chance = probability.negated ? 1 - kept : kept;
      return {
        text: ` --mode random${not(probability)} --probability ${elevenDecimals(kept)}`,
        test: (_, context) => context.chance(chance),
      };
    },
  },
  recent: {
    options: {
      ...value("--name"),
      ...value("--seconds"),
      ...value("--mask"),
      ...flag("--set"),
      ...flag("--rcheck"),
      ...flag("--update"),
      ...flag("--remove"),
      ...flag("--reap"),
      ...flag("--rsource"),
      ...flag("--rdest"),
    },
    build: buildRecent,
  },
  set: {
    options: { "--match-set": { name: "--match-set", takesValue: true, values: 2 } },
    build(given) {
      const set = given.get("--match-set");
      if (!set) throw new ParameterProblem("You must specify `--match-set' with proper arguments");
      const [name = "", sides = ""] = set.value.split(" ");
      return {
        text: `${not(set)} --match-set ${set.value}`,
        test: (packet, context) => context.isInSet(name, packet, sides.split(",")) !== set.negated,
      };
    },
  },
  ipvs: {
    options: { ...value("--vproto"), ...value("--vaddr"), ...value("--vport") },
    build(given, family) {
      const protocol = given.get("--vproto")?.value, port = given.get("--vport")?.value;
      const address = given.get("--vaddr")?.value.replace(family === "IPv4" ? /\/32$/ : /\/128$/, "");
      if (!protocol || !port || !address) throw new Unsupported("-m ipvs without --vproto, --vaddr and --vport");
      return {
        text: ` --vproto ${protocol} --vaddr ${address} --vport ${port}`,
        test: ({ virtual, protocol: number }) =>
          virtual?.address === address && virtual.port === Number(port) && number === Number(protocol),
      };
    },
  },
  bpf: {
    options: value("--bytecode"),
    build(given) {
      const program = given.get("--bytecode");
      if (!program) throw new ParameterProblem('bpf: option "--bytecode" must be specified\n');
      const run = parseBpf(program.value);
      return { text: ` --bytecode "${program.value}"`, test: (packet) => run(packet) !== 0 };
    },
  },
};

/** A kind of match by name. Throws if iptables has no such match or the fake does not support it. */
export function matchKind(name: string): MatchKind {
  const kind = Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
  if (kind) return kind;
  if (UNSUPPORTED.has(name)) throw new Unsupported(`-m ${name}`);
  throw new ParameterProblem(`Couldn't load match \`${name}':No such file or directory\n`);
}

/** Formats like C's `%.11f`, which rounds ties to even where `toFixed` rounds up. */
function elevenDecimals(probability: number): string {
  // A multiple of 2^-31 has at most 31 decimals.
  const [, kept, rest] = /^(0\.\d{11})(\d{20})$/.exec(probability.toFixed(31)) ?? [];
  return rest === "5".padEnd(20, "0") && /[02468]$/.test(kept!) ? kept! : probability.toFixed(11);
}

/** Quotes a word as iptables-save does: unless it only has letters, digits, `_` and `-`. */
export function quote(word: string): string {
  return /^[A-Za-z0-9_-]+$/.test(word) ? word : `"${word.replace(/["'\\]/g, "\\$&")}"`;
}

/** Parses `0x4000/0x4000` or `16384` into unsigned 32-bit numbers. */
export function parseMasked(kind: string, option: string, text: string): { number: number; mask: number } {
  const match = /^(0x[0-9a-f]+|\d+)(?:\/(0x[0-9a-f]+|\d+))?$/i.exec(text);
  const number = Number(match?.[1]), mask = match?.[2] === undefined ? 0xffffffff : Number(match[2]);
  if (!(number <= 0xffffffff && mask <= 0xffffffff)) {
    throw new ParameterProblem(
      `${kind}: bad ${match?.[2] ? "mask" : "integer"} value for option "${option}", or out of range.\n`,
    );
  }
  return { number, mask };
}

const STATES = ["INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED", "SNAT", "DNAT"];

function ports(protocol: "tcp" | "udp" | "sctp"): MatchKind {
  const named = (name: string) => ({ name, takesValue: true });
  return {
    options: {
      "--dport": named("--dport"),
      "--destination-port": named("--dport"),
      "--sport": named("--sport"),
      "--source-port": named("--sport"),
    },
    build(given) {
      const source = portTest(given.get("--sport")), destination = portTest(given.get("--dport"));
      return {
        text: (source ? `${source.not} --sport ${source.text}` : "") +
          (destination ? `${destination.not} --dport ${destination.text}` : ""),
        test: (packet) =>
          (!source || source.matches(packet.sourcePort)) &&
          (!destination || destination.matches(packet.destinationPort)),
        protocol: PROTOCOL_NUMBERS[protocol],
      };
    },
  };
}

function portTest(given: GivenOption | undefined) {
  if (!given) return undefined;
  const colon = given.value.indexOf(":");
  const low = colon < 0 ? parsePort(given.value) : parsePort(given.value.slice(0, colon) || "0");
  const high = colon < 0 ? low : parsePort(given.value.slice(colon + 1) || "65535");
  if (low > high) throw new ParameterProblem("invalid portrange (min > max)");
  return {
    not: not(given),
    text: low === high ? String(low) : `${low}:${high}`,
    matches: (port: number) => (port >= low && port <= high) !== given.negated,
  };
}

function parsePort(text: string): number {
  if (!/^\d+$/.test(text) || Number(text) > 65535) {
    throw new ParameterProblem(`invalid port/service \`${text}' specified`);
  }
  return Number(text);
}

function addressTypeTest(given: GivenOption) {
  const tests = given.value.split(",").map((name) => {
    const test = ADDRESS_TYPES[name];
    if (!test) throw new Unsupported(`address type ${name}`);
    return test;
  });
  return (address: PacketAddress, context: MatchContext) =>
    tests.some((test) => test(address, context)) !== given.negated;
}

const ADDRESS_TYPES: Readonly<Record<string, (address: PacketAddress, context: MatchContext) => boolean>> = {
  LOCAL: (address, context) => context.isLocal(address),
  BROADCAST: (address) => address.text === "255.255.255.255",
  MULTICAST: isMulticast,
  UNICAST: (address, context) =>
    !context.isLocal(address) && !isMulticast(address) && address.text !== "255.255.255.255",
};

function isMulticast(address: PacketAddress): boolean {
  return address.bytes.length === 4 ? address.bytes[0]! >> 4 === 14 : address.bytes[0] === 0xff;
}

function buildRecent(given: ReadonlyMap<string, GivenOption>, family: Family): BuiltMatch {
  const actions = ["--set", "--rcheck", "--update", "--remove"].filter((name) => given.has(name));
  const action = actions[0];
  if (action === undefined) {
    throw new ParameterProblem("recent: you must specify one of `--set', `--rcheck' `--update' or `--remove'");
  }
  if (actions.length > 1) throw new ParameterProblem(`recent: only one of ${actions.join(" ")} may be given`);
  const list = given.get("--name")?.value ?? "DEFAULT";
  const seconds = given.get("--seconds")?.value;
  const maskText = given.get("--mask")?.value ??
    (family === "IPv4" ? "255.255.255.255" : "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  const mask = bytesOf(maskText, family);
  if (!mask) throw new ParameterProblem(`recent: bad value for option "--mask", or out of range.\n`);
  const side = given.has("--rdest") ? "destination" : "source";
  const { negated } = given.get(action)!;
  const masked = (packet: PacketInFlight) => packet[side].bytes.map((byte, i) => byte & mask[i]!).join(".");
  const found = ({ recent }: MatchContext, address: string): boolean => {
    switch (action) {
      case "--set":
        recent.stamp(list, address);
        return true;
      case "--remove":
        return recent.remove(list, address);
      default: {
        const known = recent.knows(list, address, seconds === undefined ? undefined : Number(seconds));
        if (known && action === "--update") recent.stamp(list, address);
        return known;
      }
    }
  };
  return {
    text: `${negated ? " !" : ""} ${action}${seconds === undefined ? "" : ` --seconds ${Number(seconds)}`}` +
      `${given.has("--reap") ? " --reap" : ""} --name ${list} --mask ${printAddress(mask)} --r${
        side === "source" ? "source" : "dest"
      }`,
    test: (packet, context) => found(context, masked(packet)) !== negated,
    recentList: list,
  };
}
