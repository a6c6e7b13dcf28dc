import { jhash } from "../../backends/nftables/hashes.ts";
import { canonicalAddress } from "../../platform/address.ts";

/**
 * The number that nft's `jhash … mod MODULUS seed SEED` draws: the kernel's jhash (include/linux/jhash.h), scaled to the
 * modulus (reciprocal_scale, net/netfilter/nft_hash.c).
 */
export function drawByHash(bytes: Uint8Array, modulus: number, seed: number): number {
  return Math.floor(jhash(new Uint32Array(bytes.slice().buffer), seed) * modulus / 2 ** 32);
}

/** Fields of a key as nft loads them into registers, each filled up to four bytes: addresses, ports and protocols. */
export function registersOf(fields: readonly string[]): Uint8Array {
  return Uint8Array.from(fields.flatMap((field) => {
    if (field.includes(":")) return bytesOfIPv6(field);
    if (field.includes(".")) return field.split(".").map(Number);
    const protocol = PROTOCOL_BYTES[field];
    return protocol === undefined ? [Number(field) >> 8, Number(field) & 0xff, 0, 0] : [protocol, 0, 0, 0];
  }));
}

const PROTOCOL_BYTES: Readonly<Record<string, number>> = { tcp: 6, udp: 17, sctp: 132 };

function bytesOfIPv6(address: string): number[] {
  const [head = "", tail] = canonicalAddress(address)!.split("::");
  const groups = (text: string) => text === "" ? [] : text.split(":").map((group) => parseInt(group, 16));
  const before = groups(head), after = groups(tail ?? "");
  const zeros = new Array<number>(8 - before.length - after.length).fill(0);
  return [...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]);
}
