/** Packets that tests send through the fakes' rules, and their outcomes. */
import { canonicalAddress, type Family, familyOf, prefixContains } from "../../platform/address.ts";

/** Protocols and their numbers in the IP header. */
export const PROTOCOL_NUMBERS = { icmp: 1, tcp: 6, udp: 17, "ipv6-icmp": 58, sctp: 132 } as const;

/** The name of a protocol in `PROTOCOL_NUMBERS`. */
export type PacketProtocol = keyof typeof PROTOCOL_NUMBERS;

/** The origin of a packet: a known host, or an address behind an interface. */
export type PacketOrigin =
  | "node"
  | "pod-on-node"
  | "outside"
  /** Without an interface, the node itself sends the packet from this address. */
  | { readonly address: string; readonly interface?: string };

/** The conntrack state of a packet's connection. */
export type ConnectionState = "INVALID" | "NEW" | "RELATED" | "ESTABLISHED" | "UNTRACKED";

/** A packet to send through the rules. */
export interface PacketRequest {
  readonly from: PacketOrigin;
  /** The destination address, which determines the family. */
  readonly to: string;
  readonly port: number;
  /** TCP by default. */
  readonly protocol?: PacketProtocol;
  /** 40000 by default. */
  readonly sourcePort?: number;
  /** NEW by default; nat chains see only NEW packets. */
  readonly state?: ConnectionState;
  /** Whether it is an endpoint's answer to the first packet of a connection (nftables only). */
  readonly isSynAck?: true;
  /** The destination of its connection before a rule has translated it to `to` and `port` (nftables only). */
  readonly translatedFrom?: { readonly to: string; readonly port: number };
  /** The TCP flags besides ACK, none by default (nftables only). */
  readonly flags?: readonly ("fin" | "syn" | "rst")[];
  /** The packet mark at the start; 0 by default. */
  readonly mark?: number;
}

/** The result of sending a packet. */
export interface PacketOutcome {
  /**
   * - `delivered`: forwarded to a destination that the rules set;
   * - `passed`: forwarded to its original destination;
   * - `rejected`: the sender gets an error;
   * - `dropped`: discarded silently.
   */
  readonly verdict: "delivered" | "passed" | "rejected" | "dropped";
  /** The last destination: `address:port`. */
  readonly destination: string;
  /** Whether the source was rewritten to an address of the node. */
  readonly masqueraded: boolean;
  /** The final packet mark. */
  readonly mark: number;
}

/** An in-memory kernel that packets can be sent through. */
export interface PacketHost<Outcome extends PacketOutcome = PacketOutcome> {
  /** Sends a packet with random decisions; affinity remembers the client. */
  send(packet: PacketRequest): Outcome;
  /** All possible outcomes for a packet with their probabilities. Changes no state. */
  outcomes(packet: PacketRequest): readonly { readonly outcome: Outcome; readonly share: number }[];
}

/** The node and the hosts around it. */
export interface Surroundings {
  /** The node's addresses besides loopback; the first of a family is the source address of its packets. */
  readonly nodeAddresses: readonly string[];
  /** A pod on this node by family, and the interface of all pods. */
  readonly podAddresses: Readonly<Record<Family, string>>;
  readonly podInterface: string;
  /** Destinations behind the pods' interface, as canonical prefixes; all others are behind the outside interface. */
  readonly podPrefixes: readonly string[];
  readonly outsideAddresses: Readonly<Record<Family, string>>;
  readonly outsideInterface: string;
}

/** A node 192.168.1.1 with pods in 10.244.1.0/24, and the same in IPv6. */
export const DEFAULT_SURROUNDINGS: Surroundings = {
  nodeAddresses: ["192.168.1.1", "fd00:168::1"],
  podAddresses: { IPv4: "10.244.1.250", IPv6: "fd00:244:1::fa" },
  podInterface: "cni0",
  podPrefixes: ["10.244.1.0/24", "fd00:244:1::/64"],
  outsideAddresses: { IPv4: "203.0.113.7", IPv6: "2001:db8:113::7" },
  outsideInterface: "eth0",
};

/** The canonical form of an address. Throws if it is invalid. */
export function canonical(text: string): string {
  const address = canonicalAddress(text);
  if (address === undefined) throw new Error(`${text} is not an IP address`);
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

/** A packet's source address and incoming interface, which is empty if the node itself sends it. */
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

/** The source address of the node's packets: for its own addresses, the destination itself. */
function nodeSource(family: Family, destination: string, surroundings: Surroundings): string {
  if (isLocal(destination, surroundings)) return destination;
  const address = surroundings.nodeAddresses.find((each) => familyOf(each) === family);
  if (address === undefined) throw new Error(`the node has no ${family} address`);
  return address;
}

/** The outgoing interface for an address that is not the node's own. */
export function interfaceTo(destination: string, surroundings: Surroundings): string {
  const isPod = surroundings.podPrefixes.some((prefix) => prefixContains(prefix, destination));
  return isPod ? surroundings.podInterface : surroundings.outsideInterface;
}

/** The suffix of masqueraded destinations in `outcomeShares`. */
export const MASQUERADED = " masqueraded";

/** An outcome as text: `ENDPOINT`, `ENDPOINT masqueraded`, or the verdict. */
export function outcomeText({ verdict, destination, masqueraded }: PacketOutcome): string {
  return verdict === "delivered" ? destination + (masqueraded ? MASQUERADED : "") : verdict;
}

/** The probability of each outcome (as `outcomeText`), rounded to four digits. Changes no state. */
export function outcomeShares(host: PacketHost, packet: PacketRequest): Record<string, number> {
  const shares: Record<string, number> = {};
  for (const { outcome, share } of host.outcomes(packet)) {
    const text = outcomeText(outcome);
    shares[text] = (shares[text] ?? 0) + share;
  }
  return Object.fromEntries(Object.entries(shares).map(([text, share]) => [text, Number(share.toFixed(4))]));
}
