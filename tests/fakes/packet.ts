/** The question that every interpreting fake answers, whatever its kernel is made of: where would this packet go? */
import { canonicalAddress, type Family, familyOf, prefixContains } from "../../platform/address.ts";

/** What a packet may carry, with its number in the IP header. */
export const PROTOCOL_NUMBERS = { icmp: 1, tcp: 6, udp: 17, "ipv6-icmp": 58, sctp: 132 } as const;

/** The name of a protocol in `PROTOCOL_NUMBERS`. */
export type PacketProtocol = keyof typeof PROTOCOL_NUMBERS;

/** Where a packet comes from: a place that the node's surroundings know, or an address behind an interface. */
export type PacketOrigin =
  | "node"
  | "pod-on-node"
  | "outside"
  /** Without an interface the node itself sends it, with that source address. */
  | { readonly address: string; readonly interface?: string };

/** What conntrack says of a packet's connection. */
export type ConnectionState = "INVALID" | "NEW" | "RELATED" | "ESTABLISHED" | "UNTRACKED";

/** A packet to send through the rules. */
export interface PacketRequest {
  readonly from: PacketOrigin;
  /** The destination address; it says the family. */
  readonly to: string;
  readonly port: number;
  /** TCP by default. */
  readonly protocol?: PacketProtocol;
  /** 40000 by default. */
  readonly sourcePort?: number;
  /** NEW by default; nat chains see only NEW packets. */
  readonly state?: ConnectionState;
  /** The packet mark at the start; 0 by default. */
  readonly mark?: number;
}

/** What became of a packet. */
export interface PacketOutcome {
  /**
   * - `delivered`: it goes on to a destination that the rules gave it;
   * - `passed`: it goes on to the destination that it had;
   * - `rejected`: its sender is told that it may not;
   * - `dropped`: it vanishes.
   */
  readonly verdict: "delivered" | "passed" | "rejected" | "dropped";
  /** Where it went, or was going to when it was stopped: `address:port`. */
  readonly destination: string;
  /** Whether its source became an address of the node. */
  readonly masqueraded: boolean;
  /** The mark that it ended with. */
  readonly mark: number;
}

/** A kernel in memory that packets can be sent through. */
export interface PacketHost<Outcome extends PacketOutcome = PacketOutcome> {
  /** Sends a packet; what remembers clients remembers it. Chance decides where rules leave it to chance. */
  send(packet: PacketRequest): Outcome;
  /** Everything that can become of a packet, each with its probability. Leaves no trace. */
  outcomes(packet: PacketRequest): readonly { readonly outcome: Outcome; readonly share: number }[];
}

/** The node that the packets meet. */
export interface Surroundings {
  /** The node's own addresses of both families, beside loopback; the first of a family is the source of what it sends. */
  readonly nodeAddresses: readonly string[];
  /** A pod on this node, by family, and the interface behind which all of them are. */
  readonly podAddresses: Readonly<Record<Family, string>>;
  readonly podInterface: string;
  /** Destinations behind the pods' interface, as canonical prefixes. Everything else goes out by the outside one. */
  readonly podPrefixes: readonly string[];
  readonly outsideAddresses: Readonly<Record<Family, string>>;
  readonly outsideInterface: string;
}

/** A node 192.168.1.1 with pods 10.244.1.0/24, and the same in IPv6. */
export const DEFAULT_SURROUNDINGS: Surroundings = {
  nodeAddresses: ["192.168.1.1", "fd00:168::1"],
  podAddresses: { IPv4: "10.244.1.250", IPv6: "fd00:244:1::fa" },
  podInterface: "cni0",
  podPrefixes: ["10.244.1.0/24", "fd00:244:1::/64"],
  outsideAddresses: { IPv4: "203.0.113.7", IPv6: "2001:db8:113::7" },
  outsideInterface: "eth0",
};

/** An address in canonical form. Throws where it is none. */
export function canonical(text: string): string {
  const address = canonicalAddress(text);
  if (address === undefined) throw new Error(`${text} is no IP address`);
  return address;
}

/** Whether an address, canonical, is one of 127.0.0.0/8 or ::1. */
export function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}

/** Whether an address, canonical, is the node's own. */
export function isLocal(address: string, { nodeAddresses }: Surroundings): boolean {
  return isLoopback(address) || nodeAddresses.includes(address);
}

/** A packet's source address, and the interface by which it comes in; empty where the node itself sends it. */
export function originOf(
  { from, to }: PacketRequest,
  surroundings: Surroundings,
): { readonly address: string; readonly inInterface: string } {
  const destination = canonical(to), family = familyOf(destination);
  switch (from) {
    case "node":
      return { address: nodeSource(family, destination, surroundings), inInterface: "" };
    case "pod-on-node":
      return { address: surroundings.podAddresses[family], inInterface: surroundings.podInterface };
    case "outside":
      return { address: surroundings.outsideAddresses[family], inInterface: surroundings.outsideInterface };
    default:
      return { address: from.address, inInterface: from.interface ?? "" };
  }
}

/** What the node sends to an address of its own comes from that very address. */
function nodeSource(family: Family, destination: string, surroundings: Surroundings): string {
  if (isLocal(destination, surroundings)) return destination;
  const address = surroundings.nodeAddresses.find((each) => familyOf(each) === family);
  if (address === undefined) throw new Error(`the node has no ${family} address`);
  return address;
}

/** The interface by which the node sends to an address that is not its own. */
export function interfaceTo(destination: string, surroundings: Surroundings): string {
  const isPod = surroundings.podPrefixes.some((prefix) => prefixContains(prefix, destination));
  return isPod ? surroundings.podInterface : surroundings.outsideInterface;
}

/** What a masqueraded packet's way ends with, as `whereTo` tells it. */
export const MASQUERADED = " masqueraded";

/** An outcome in a word: `ENDPOINT`, `ENDPOINT masqueraded`, or the verdict. */
export function told({ verdict, destination, masqueraded }: PacketOutcome): string {
  return verdict === "delivered" ? destination + (masqueraded ? MASQUERADED : "") : verdict;
}

/** The share of such packets that end in each way, as `told`, to four digits. Leaves no trace. */
export function whereTo(host: PacketHost, packet: PacketRequest): Record<string, number> {
  const shares: Record<string, number> = {};
  for (const { outcome, share } of host.outcomes(packet)) {
    const way = told(outcome);
    shares[way] = (shares[way] ?? 0) + share;
  }
  return Object.fromEntries(Object.entries(shares).map(([way, share]) => [way, Number(share.toFixed(4))]));
}
