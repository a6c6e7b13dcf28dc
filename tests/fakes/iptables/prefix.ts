import { addressBytes, addressOfBytes, canonicalAddress, type Family, familyOf } from "../../../platform/address.ts";
import { ParameterProblem, Unsupported } from "./errors.ts";
import type { PacketAddress } from "./packet.ts";

/** A prefix in a rule. */
export interface RulePrefix {
  /** As iptables-save prints it, including the length. */
  readonly text: string;
  readonly length: number;
  contains(address: PacketAddress): boolean;
}

/** Parses `10.0.0.1`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0` or `fd00::/64`. Throws iptables' errors. */
export function parsePrefix(text: string, family: Family): RulePrefix {
  if (text.includes(",")) throw new Unsupported(`lists of addresses (${text})`);
  const slash = text.indexOf("/");
  const bits = family === "IPv4" ? 32 : 128;
  const length = slash < 0 ? bits : parseLength(text.slice(slash + 1), bits);
  const bytes = parseAddress(slash < 0 ? text : text.slice(0, slash), family).bytes.slice();
  for (let i = 0; i < bytes.length; i++) bytes[i] = bytes[i]! & byteMask(length, i);
  return {
    text: `${printAddress(bytes)}/${length}`,
    length,
    contains(address) {
      if (address.bytes.length !== bytes.length) return false;
      for (let i = 0; i * 8 < length; i++) {
        if (((address.bytes[i]! ^ bytes[i]!) & byteMask(length, i)) !== 0) return false;
      }
      return true;
    },
  };
}

/** Parses an address of a family. Throws iptables' errors. */
export function parseAddress(text: string, family: Family): PacketAddress {
  const bytes = bytesOf(text, family);
  if (bytes === undefined) throw new ParameterProblem(`host/network \`${text}' not found`);
  return { text: addressOfBytes(bytes), bytes };
}

/** The bytes of an address of a family; undefined for anything else. An IPv4-mapped address counts as IPv6. */
export function bytesOf(text: string, family: Family): Uint8Array | undefined {
  const canonical = canonicalAddress(text);
  if (canonical === undefined) return undefined;
  if (familyOf(canonical) === family) return addressBytes(canonical);
  if (family === "IPv4" || !text.includes(":")) return undefined;
  return Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ...addressBytes(canonical));
}

/** An address as the C library prints it. */
export function printAddress(bytes: Uint8Array): string {
  const text = addressOfBytes(bytes);
  return text.startsWith("::ffff:") ? `::ffff:${bytes.subarray(12).join(".")}` : text;
}

function parseLength(text: string, bits: number): number {
  if (/^\d+$/.test(text) && Number(text) <= bits) return Number(text);
  const mask = bits === 32 && text.includes(".") ? canonicalAddress(text) : undefined;
  if (mask === undefined) throw new ParameterProblem(`invalid mask \`${text}' specified`);
  const binary = addressBytes(mask).reduce((all, byte) => all + byte.toString(2).padStart(8, "0"), "");
  if (!/^1*0*$/.test(binary)) throw new Unsupported(`non-contiguous masks (${text})`);
  return binary.lastIndexOf("1") + 1;
}

function byteMask(length: number, index: number): number {
  const left = length - index * 8;
  return left >= 8 ? 0xff : left <= 0 ? 0 : 0xff << (8 - left) & 0xff;
}
