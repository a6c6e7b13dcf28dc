import type { Family } from "../../../platform/address.ts";
import { ParameterProblem, Uninterpreted } from "./errors.ts";
import { type GivenOption, parseMasked } from "./matches.ts";
import { bytesOf, printAddress } from "./prefix.ts";
import type { PacketAddress } from "./packet.ts";

/** What a rule does with a packet that fits. */
export type Target =
  | { readonly does: "nothing" }
  | { readonly does: "jump"; readonly chain: string; readonly comesBack: boolean }
  | { readonly does: "return" }
  | { readonly does: "accept" }
  | { readonly does: "drop" }
  | { readonly does: "reject" }
  | { readonly does: "dnat"; readonly address: PacketAddress | undefined; readonly port: number | undefined }
  | { readonly does: "masquerade" }
  | { readonly does: "mark"; readonly value: number; readonly mask: number };

/** Where the kernel takes a target; everywhere if nothing is said. */
export interface TargetPlaces {
  readonly table?: string;
  readonly hooks?: readonly string[];
}

/** A target with its options, understood. */
export interface BuiltTarget {
  readonly target: Target;
  /** The options, as iptables-save prints them, with a space before each word. */
  readonly text: string;
  readonly places: TargetPlaces;
  /** The kernel refuses it for rules of any other protocol. */
  readonly protocol?: number;
}

/** A kind of target: `-j NAME`. */
export interface TargetKind {
  /** The options and whether a value follows. */
  readonly options: Readonly<Record<string, { readonly name: string; readonly takesValue: boolean }>>;
  build(given: ReadonlyMap<string, GivenOption>, rule: TargetRule): BuiltTarget;
}

/** What a target needs to know of its rule. */
export interface TargetRule {
  readonly family: Family;
  readonly hasPorts: boolean;
}

const UNINTERPRETED = new Set(
  ("AUDIT CHECKSUM CLASSIFY CLUSTERIP CONNMARK CONNSECMARK CT DSCP ECN HL HMARK IDLETIMER LED LOG MIRROR NETMAP NFLOG " +
    "NFQUEUE NOTRACK QUEUE RATEEST REDIRECT SAME SECMARK SET SNAT SNPT DNPT SYNPROXY TCPMSS TCPOPTSTRIP TEE TOS TPROXY " +
    "TRACE TTL ULOG").split(" "),
);

const EVERYWHERE: TargetPlaces = {};
const option = (name: string, takesValue = true) => ({ [name]: { name, takesValue } });
const plain = (does: "return" | "accept" | "drop"): TargetKind => ({
  options: {},
  build: () => ({ target: { does }, text: "", places: EVERYWHERE }),
});

const KINDS: Readonly<Record<string, TargetKind>> = {
  ACCEPT: plain("accept"),
  DROP: plain("drop"),
  RETURN: plain("return"),
  REJECT: {
    options: option("--reject-with"),
    build(given, { family }) {
      const withWhat = given.get("--reject-with")?.value ?? REJECTS[family][0]!;
      if (!REJECTS[family].includes(withWhat)) throw new ParameterProblem(`unknown reject type "${withWhat}"`);
      return {
        target: { does: "reject" },
        text: ` --reject-with ${withWhat}`,
        places: { table: "filter", hooks: ["INPUT", "FORWARD", "OUTPUT"] },
        protocol: withWhat === "tcp-reset" ? 6 : undefined,
      };
    },
  },
  DNAT: {
    options: { ...option("--to-destination"), ...option("--random", false), ...option("--persistent", false) },
    build(given, { family, hasPorts }) {
      const to = given.get("--to-destination")?.value;
      if (to === undefined) throw new ParameterProblem('DNAT: option "--to-destination" must be specified\n');
      const { address, port, text } = parseDestination(to, family);
      if (port !== undefined && !hasPorts) {
        throw new ParameterProblem("Need TCP, UDP, SCTP or DCCP with port specification");
      }
      return {
        target: { does: "dnat", address, port },
        text: ` --to-destination ${text}${flags(given, "--random", "--persistent")}`,
        places: { table: "nat", hooks: ["PREROUTING", "OUTPUT"] },
      };
    },
  },
  MASQUERADE: {
    options: { ...option("--random", false), ...option("--random-fully", false) },
    build: (given) => ({
      target: { does: "masquerade" },
      text: flags(given, "--random", "--random-fully"),
      places: { table: "nat", hooks: ["POSTROUTING"] },
    }),
  },
  MARK: {
    options: {
      ...option("--set-xmark"),
      ...option("--set-mark"),
      ...option("--or-mark"),
      ...option("--xor-mark"),
      ...option("--and-mark"),
    },
    build(given) {
      const [name, argument] = [...given][0] ?? [];
      if (name === undefined || argument === undefined) {
        throw new ParameterProblem("MARK: One of the --set-xmark, --{and,or,xor,set}-mark options is required");
      }
      const { number, mask } = parseMasked("MARK", name, argument.value);
      const [value, bits] = markOf(name, number, mask);
      return {
        target: { does: "mark", value, mask: bits },
        text: ` --set-xmark 0x${value.toString(16)}/0x${bits.toString(16)}`,
        places: EVERYWHERE,
      };
    },
  },
};

/** The kind of target of this name; undefined where it can only be a chain's. */
export function targetKind(name: string): TargetKind | undefined {
  if (UNINTERPRETED.has(name)) throw new Uninterpreted(`-j ${name}`);
  return Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
}

const REJECTS: Readonly<Record<Family, readonly string[]>> = {
  IPv4:
    ("icmp-port-unreachable icmp-net-unreachable icmp-host-unreachable icmp-proto-unreachable icmp-net-prohibited " +
      "icmp-host-prohibited tcp-reset icmp-admin-prohibited").split(" "),
  IPv6: ("icmp6-port-unreachable icmp6-no-route icmp6-adm-prohibited icmp6-addr-unreachable tcp-reset " +
    "icmp6-policy-fail icmp6-reject-route").split(" "),
};

function flags(given: ReadonlyMap<string, GivenOption>, ...names: string[]): string {
  return names.filter((name) => given.has(name)).map((name) => ` ${name}`).join("");
}

/** The bits that are flipped, and those that are cleared before: mark = (mark & ~mask) ^ value. */
function markOf(option: string, number: number, mask: number): [value: number, mask: number] {
  switch (option) {
    case "--set-mark":
      return [number, (number | mask) >>> 0];
    case "--or-mark":
      return [number, number];
    case "--xor-mark":
      return [number, 0];
    case "--and-mark":
      return [0, ~number >>> 0];
    default:
      return [number, mask];
  }
}

function parseDestination(text: string, family: Family) {
  const match = family === "IPv4" ? /^([^:]*)(?::(.*))?$/.exec(text) : /^\[?([^\]]*)\]?(?::(\d.*))?$/.exec(text);
  const isBracketed = text.startsWith("[");
  const host = family === "IPv6" && !isBracketed ? text : match?.[1] ?? text;
  const portText = family === "IPv6" && !isBracketed ? undefined : match?.[2];
  if (host.includes("-") || portText?.includes("-")) throw new Uninterpreted(`ranges to translate to (${text})`);
  const bytes = host === "" ? undefined : bytesOf(host, family);
  if (host !== "" && !bytes) throw new ParameterProblem(`Bad IP address "${host}"`);
  if (portText !== undefined && !(/^\d+$/.test(portText) && Number(portText) >= 1 && Number(portText) <= 65535)) {
    throw new ParameterProblem(`Port \`${portText}' not valid`);
  }
  const port = portText === undefined ? undefined : Number(portText);
  const printed = bytes ? printAddress(bytes) : "";
  const bracketed = family === "IPv6" && port !== undefined && bytes ? `[${printed}]` : printed;
  return {
    address: bytes && { text: printed, bytes },
    port,
    text: port === undefined ? printed : `${bracketed}:${port}`,
  };
}
