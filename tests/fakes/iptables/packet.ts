import { addressBytes, canonicalAddress, type Family } from "../../../platform/address.ts";

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

/** An address in the two forms that rules need. */
export interface PacketAddress {
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** A packet on its way: what rules match and change. */
export interface PacketInFlight {
  readonly family: Family;
  readonly protocol: number;
  source: PacketAddress;
  destination: PacketAddress;
  readonly sourcePort: number;
  destinationPort: number;
  /** Empty where there is none at this point of the way. */
  inInterface: string;
  outInterface: string;
  /** 32 bits, not negative. */
  mark: number;
  readonly state: ConnectionState;
  /** Whether the connection's destination was rewritten. */
  dnat: boolean;
  masqueraded: boolean;
}

/** An address, canonical or not. Throws where it is none. */
export function packetAddress(text: string): PacketAddress {
  const canonical = canonicalAddress(text);
  if (canonical === undefined) throw new Error(`${text} is no IP address`);
  return { text: canonical, bytes: addressBytes(canonical) };
}

/** The IP header of a packet, as far as rules read it: addresses and protocol in their places. */
export function ipHeader(packet: PacketInFlight): Uint8Array<ArrayBuffer> {
  const isV4 = packet.family === "IPv4";
  const header = new Uint8Array(isV4 ? 20 : 40);
  header[0] = isV4 ? 0x45 : 0x60;
  header[isV4 ? 9 : 6] = packet.protocol;
  header.set(packet.source.bytes, isV4 ? 12 : 8);
  header.set(packet.destination.bytes, isV4 ? 16 : 24);
  return header;
}
