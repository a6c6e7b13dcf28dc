import { sha256 } from "@noble/hashes/sha2.js";

/** Parts of the SHA-256 of some content. */
export interface ContentHash {
  /** 64 bits, for KPNG's hash fields. */
  readonly value: bigint;
  /** 96 bits in base64url, for paths. */
  readonly text: string;
}

const TEXT_BYTES = 12;

/** Hashes bytes: equal bytes have equal hashes in every process. */
export function contentHash(bytes: Uint8Array): ContentHash {
  const digest = sha256(bytes);
  const text = btoa(String.fromCharCode(...digest.subarray(0, TEXT_BYTES))).replaceAll("+", "-").replaceAll("/", "_");
  return { value: new DataView(digest.buffer, digest.byteOffset).getBigUint64(0), text };
}
