import { canonicalAddress } from "../../platform/address.ts";

/**
 * The number that nft's `jhash … mod MODULUS seed SEED` draws: the kernel's jhash (include/linux/jhash.h), scaled to the
 * modulus (reciprocal_scale, net/netfilter/nft_hash.c).
 */
export function drawByHash(bytes: Uint8Array, modulus: number, seed: number): number {
  return Number(BigInt(jhash(bytes, seed)) * BigInt(modulus) >> 32n);
}

function jhash(bytes: Uint8Array, seed: number): number {
  let a = (0xdeadbeef + bytes.length + seed) >>> 0, b = a, c = a;
  const word = (at: number) => {
    let value = 0;
    for (let i = 0; i < 4; i++) value += (bytes[at + i] ?? 0) * 2 ** (8 * i);
    return value;
  };
  let at = 0;
  for (; bytes.length - at > 12; at += 12) {
    a += word(at), b += word(at + 4), c += word(at + 8);
    a -= c, a ^= rotate(c, 4), c += b;
    b -= a, b ^= rotate(a, 6), a += c;
    c -= b, c ^= rotate(b, 8), b += a;
    a -= c, a ^= rotate(c, 16), c += b;
    b -= a, b ^= rotate(a, 19), a += c;
    c -= b, c ^= rotate(b, 4), b += a;
  }
  a += word(at), b += word(at + 4), c += word(at + 8);
  c ^= b, c -= rotate(b, 14);
  a ^= c, a -= rotate(c, 11);
  b ^= a, b -= rotate(a, 25);
  c ^= b, c -= rotate(b, 16);
  a ^= c, a -= rotate(c, 4);
  b ^= a, b -= rotate(a, 14);
  c ^= b, c -= rotate(b, 24);
  return c >>> 0;
}

function rotate(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}

/** An address, and a port in a word of four bytes, as nft loads them into registers. */
export function registersOf(address: string, port?: number): Uint8Array {
  const bytes = address.includes(":") ? bytesOfIPv6(address) : address.split(".").map(Number);
  if (port !== undefined) bytes.push(port >> 8, port & 0xff, 0, 0);
  return Uint8Array.from(bytes);
}

function bytesOfIPv6(address: string): number[] {
  const [head = "", tail] = canonicalAddress(address)!.split("::");
  const groups = (text: string) => text === "" ? [] : text.split(":").map((group) => parseInt(group, 16));
  const before = groups(head), after = groups(tail ?? "");
  const zeros = new Array<number>(8 - before.length - after.length).fill(0);
  return [...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]);
}
