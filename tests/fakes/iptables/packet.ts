import { addressBytes, type Family } from "../../../platform/address.ts";
import { canonical, type ConnectionState } from "../packet.ts";

/** An address as text and as bytes. */
export interface PacketAddress {
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** A packet that passes through the rules: the fields that they match and change. */
export interface PacketInFlight {
  readonly family: Family;
  readonly protocol: number;
  source: PacketAddress;
  destination: PacketAddress;
  readonly sourcePort: number;
  destinationPort: number;
  /** Empty where the packet has none at this point of its path. */
  inInterface: string;
  outInterface: string;
  /** Unsigned, 32 bits. */
  mark: number;
  readonly state: ConnectionState;
  /** Whether the connection's destination was rewritten. */
  dnat: boolean;
  /** The matching virtual server of IPVS. */
  virtual: { readonly address: string; readonly port: number } | undefined;
  masqueraded: boolean;
}

/** Parses an address. Throws if it is invalid. */
export function packetAddress(text: string): PacketAddress {
  const address = canonical(text);
  return { text: address, bytes: addressBytes(address) };
}

/** The IP header of a packet, with only version, addresses and protocol set. */
export function ipHeader(packet: PacketInFlight): Uint8Array<ArrayBuffer> {
  const isV4 = packet.family === "IPv4";
  const header = new Uint8Array(isV4 ? 20 : 40);
  header[0] = isV4 ? 0x45 : 0x60;
  header[isV4 ? 9 : 6] = packet.protocol;
  header.set(packet.source.bytes, isV4 ? 12 : 8);
  header.set(packet.destination.bytes, isV4 ? 16 : 24);
  return header;
}
