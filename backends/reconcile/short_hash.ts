// Not node:crypto, which would load several megabytes of Node's code into each worker.
import { sha256 } from "@noble/hashes/sha2.js";

const encoder = new TextEncoder();
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** The first 16 characters of the base32 form of a text's SHA-256, as kube-proxy shortens names. */
export function shortHash(text: string): string {
  const digest = sha256(encoder.encode(text));
  let out = "", bits = 0, value = 0;
  for (let i = 0; out.length < 16; i++) {
    value = (value << 8 | digest[i]!) & 0xffff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      out += BASE32[value >> bits & 31];
    }
  }
  return out.slice(0, 16);
}
