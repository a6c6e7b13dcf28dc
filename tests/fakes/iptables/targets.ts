import type { Family } from "../../../platform/address.ts";
import { ParameterProblem, Unsupported } from "./errors.ts";
import { type GivenOption, parseMasked } from "./matches.ts";
import { bytesOf, printAddress } from "./prefix.ts";
import type { PacketAddress } from "./packet.ts";

/** The action of a rule on a matching packet. */
export type Target =
  | { readonly action: "nothing" }
  | { readonly action: "jump"; readonly chain: string; readonly returns: boolean }
  | { readonly action: "return" }
  | { readonly action: "accept" }
  | { readonly action: "drop" }
  | { readonly action: "reject" }
  | { readonly action: "dnat"; readonly address: PacketAddress | undefined; readonly port: number | undefined }
  | { readonly action: "redirect"; readonly port: number | undefined }
  | { readonly action: "masquerade" }
  | { readonly action: "mark"; readonly value: number; readonly mask: number };

/** The table and hooks in which a target is valid; anywhere if not given. */
export interface TargetPlaces {
  readonly table?: string;
  readonly hooks?: readonly string[];
}

/** A parsed target. */
export interface BuiltTarget {
  readonly target: Target;
  /** The options as iptables-save prints them, with a space before each word. */
  readonly text: string;
  readonly places: TargetPlaces;
  /** The protocol that the rule must have. */
  readonly protocol?: number;
}

/** A kind of target: `-j NAME`. */
export interface TargetKind {
  /** The options, and whether a value follows. */
  readonly options: Readonly<Record<string, { readonly name: string; readonly takesValue: boolean }>>;
  build(given: ReadonlyMap<string, GivenOption>, rule: TargetRule): BuiltTarget;
}

/** Properties of the rule that affect its target. */
export interface TargetRule {
  readonly family: Family;
  readonly hasPorts: boolean;
}

const UNSUPPORTED = new Set(
  ("AUDIT CHECKSUM CLASSIFY CLUSTERIP CONNMARK CONNSECMARK CT DSCP ECN HL HMARK IDLETIMER LED LOG MIRROR NETMAP NFLOG " +
    "NFQUEUE NOTRACK QUEUE RATEEST SAME SECMARK SET SNAT SNPT DNPT SYNPROXY TCPMSS TCPOPTSTRIP TEE TOS TPROXY " +
    "TRACE TTL ULOG").split(" "),
);

const EVERYWHERE: TargetPlaces = {};
const option = (name: string, takesValue = true) => ({ [name]: { name, takesValue } });
const plain = (action: "return" | "accept" | "drop"): TargetKind => ({
  options: {},
  build: () => ({ target: { action }, text: "", places: EVERYWHERE }),
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
        target: { action: "reject" },
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
        target: { action: "dnat", address, port },
        text: ` --to-destination ${text}${flags(given, "--random", "--persistent")}`,
        places: { table: "nat", hooks: ["PREROUTING", "OUTPUT"] },
      };
    },
  },
  REDIRECT: {
    options: { ...option("--to-ports"), ...option("--random", false) },
    build(given, { hasPorts }) {
      const port = parseToPorts(given.get("--to-ports")?.value);
      if (port !== undefined && !hasPorts) {
        throw new ParameterProblem("Need TCP, UDP, SCTP or DCCP with port specification");
      }
      return {
        target: { action: "redirect", port },
        text: `${port === undefined ? "" : ` --to-ports ${port}`}${flags(given, "--random")}`,
        places: { table: "nat", hooks: ["PREROUTING", "OUTPUT"] },
      };
    },
  },
  MASQUERADE: {
    options: { ...option("--random", false), ...option("--random-fully", false) },
    build: (given) => ({
      target: { action: "masquerade" },
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
        target: { action: "mark", value, mask: bits },
        text: ` --set-xmark 0x${value.toString(16)}/0x${bits.toString(16)}`,
        places: EVERYWHERE,
      };
    },
  },
};

/** The target of this name; undefined if it can only be a chain. */
export function targetKind(name: string): TargetKind | undefined {
  if (UNSUPPORTED.has(name)) throw new Unsupported(`-j ${name}`);
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

/** The value and mask for mark = (mark & ~mask) ^ value. */
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

function parseToPorts(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (text.includes("-")) throw new Unsupported(`REDIRECT ranges (${text})`);
  if (!/^\d+$/.test(text) || Number(text) > 65535) throw new ParameterProblem(`Port \`${text}' not valid`);
  return Number(text);
}

function parseDestination(text: string, family: Family) {
  const match = family === "IPv4" ? /^([^:]*)(?::(.*))?$/.exec(text) : /^\[?([^\]]*)\]?(?::(\d.*))?$/.exec(text);
  const isBracketed = text.startsWith("[");
  const host = family === "IPv6" && !isBracketed ? text : match?.[1] ?? text;
  const portText = family === "IPv6" && !isBracketed ? undefined : match?.[2];
  if (host.includes("-") || portText?.includes("-")) throw new Unsupported(`DNAT ranges (${text})`);
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
