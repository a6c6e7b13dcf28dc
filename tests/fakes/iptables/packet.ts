import { addressBytes, type Family } from "../../../platform/address.ts";
import { canonical, type ConnectionState } from "../packet.ts";

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
  /** The virtual server that IPVS found for it. */
  virtual: { readonly address: string; readonly port: number } | undefined;
  masqueraded: boolean;
}

/** An address, canonical or not. Throws where it is none. */
export function packetAddress(text: string): PacketAddress {
  const address = canonical(text);
  return { text: address, bytes: addressBytes(address) };
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
