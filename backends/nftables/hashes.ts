/**
 * Hashes, as nft's expression `jhash` computes them in the kernel.
 *
 * One stands for a pair of frontend and endpoint in the sets of counters. nft prints a set of numbers at half the cost of one with five fields.
 *
 * Two pairs with the same number would share a counter: with 30,000 active pairs, the probability of that is one in ten.
 */
import { type Protocol, PROTOCOL_NUMBERS } from "../../core/model/mod.ts";
import { addressBytes, splitHostPort } from "../../platform/mod.ts";

/** A frontend with its own address or, at a node port, that of a node. */
export interface PairFrontend {
  /** Canonical. */
  readonly address: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** The modulus, which nft requires: the largest one. */
const MODULUS = 0xffffffff;
const SEED = 0x51c1ce;

/** The expression that hashes a key, as nft prints it. */
export function hashText(key: string): string {
  return `jhash ${key} mod ${MODULUS} seed 0x${SEED.toString(16)}`;
}

/**
 * The numbers of the pairs of a frontend and each of its endpoints, which are `address:port`: signed ones of 32 bits, since V8
 * allocates memory for some unsigned ones.
 */
export function* pairHashes(
  { address, protocol, port }: PairFrontend,
  endpoints: Iterable<string>,
): Generator<{ readonly endpoint: string; readonly hash: number }> {
  const from = wordsOf(address), size = from.length;
  const words = new Uint32Array(2 * size + 3);
  words.set(from);
  words[size] = PROTOCOL_NUMBERS[protocol];
  words[size + 1] = portWord(port);
  for (const endpoint of endpoints) {
    const to = splitHostPort(endpoint);
    words.set(wordsOf(to.address), size + 2);
    words[2 * size + 2] = portWord(to.port);
    yield { endpoint, hash: scaled(jhash(words, SEED)) | 0 };
  }
}

/** A hash modulo `MODULUS`: the kernel multiplies both and takes the upper 32 bits (reciprocal_scale). */
function scaled(hash: number): number {
  return Math.max(hash - 1, 0);
}

/** The expression that hashes the destination of a packet, as nft prints it; each protocol has its own numbers. */
export function destinationHashText(ip: "ip" | "ip6", protocol: Protocol): string {
  return `jhash ${ip} daddr . ${protocol} dport mod ${MODULUS} seed 0x${seedOf(protocol).toString(16)}`;
}

/** The number that this expression has for packets to a frontend. */
export function destinationHash({ address, protocol, port }: PairFrontend): number {
  return scaled(jhash(Uint32Array.of(...wordsOf(address), portWord(port)), seedOf(protocol)));
}

function seedOf(protocol: Protocol): number {
  return SEED + PROTOCOL_NUMBERS[protocol];
}

/** The number of different hashes of clients. */
export const CLIENT_HASHES = 65_536;

/** The expression that hashes the source address of a packet, after which nft may print an offset. */
export function clientHashText(ip: "ip" | "ip6"): string {
  return `jhash ${ip} saddr mod ${CLIENT_HASHES} seed 0x${SEED.toString(16)}`;
}

/** The number that this expression has for packets of a client. */
export function clientHash(address: string): number {
  return jhash(wordsOf(address), SEED) >>> 16;
}

/** An address in registers: each has the bytes of a field in the order of the network, filled up with zeros. */
function wordsOf(address: string): Uint32Array {
  return new Uint32Array(addressBytes(address).buffer);
}

function portWord(port: number): number {
  return port >> 8 | (port & 0xff) << 8;
}

/** The kernel's jhash of registers (include/linux/jhash.h) on a little-endian processor. */
export function jhash(words: Uint32Array, seed: number): number {
  const start = 0xdeadbeef + 4 * words.length + seed;
  let a = start | 0, b = start | 0, c = start | 0, at = 0;
  const add = (at: number) => {
    a = a + (words[at] ?? 0) | 0;
    b = b + (words[at + 1] ?? 0) | 0;
    c = c + (words[at + 2] ?? 0) | 0;
  };
  for (; words.length - at > 3; at += 3) {
    add(at);
    a = (a - c ^ rotated(c, 4)) | 0, c = c + b | 0;
    b = (b - a ^ rotated(a, 6)) | 0, a = a + c | 0;
    c = (c - b ^ rotated(b, 8)) | 0, b = b + a | 0;
    a = (a - c ^ rotated(c, 16)) | 0, c = c + b | 0;
    b = (b - a ^ rotated(a, 19)) | 0, a = a + c | 0;
    c = (c - b ^ rotated(b, 4)) | 0, b = b + a | 0;
  }
  add(at);
  c = (c ^ b) - rotated(b, 14) | 0;
  a = (a ^ c) - rotated(c, 11) | 0;
  b = (b ^ a) - rotated(a, 25) | 0;
  c = (c ^ b) - rotated(b, 16) | 0;
  a = (a ^ c) - rotated(c, 4) | 0;
  b = (b ^ a) - rotated(a, 14) | 0;
  c = (c ^ b) - rotated(b, 24) | 0;
  return c >>> 0;
}

function rotated(word: number, by: number): number {
  return word << by | word >>> (32 - by);
}
