// Not node:crypto, which would load several megabytes of Node's code into each worker.
import { sha256 } from "@noble/hashes/sha2.js";
import { base32 } from "@scure/base";

const encoder = new TextEncoder();

/** The bytes of 16 characters in base32. */
const BYTES = 10;

/** The first 16 characters of the base32 form of a text's SHA-256, as kube-proxy shortens names. */
export function shortHash(text: string): string {
  return base32.encode(sha256(encoder.encode(text)).subarray(0, BYTES));
}
