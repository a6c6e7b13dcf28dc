/**
 * A running 53-bit hash of text, kept instead of a chain's rules. Different chains have equal hashes with a chance of one
 * in 9,000,000,000,000,000.
 */
export interface TextHash {
  add(text: string): void;
  /** The hash of everything added so far. */
  value(): number;
}

/** A hash of the empty text. */
export function createTextHash(): TextHash {
  let a = 0xdeadbeef | 0, b = 0x41c6ce57 | 0;
  return {
    add(text) {
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i);
        a = Math.imul(a ^ code, 2654435761);
        b = Math.imul(b ^ code, 1597334677);
      }
    },
    value() {
      const x = Math.imul(a ^ a >>> 16, 2246822507) ^ Math.imul(b ^ b >>> 13, 3266489909);
      const y = Math.imul(b ^ b >>> 16, 2246822507) ^ Math.imul(a ^ a >>> 13, 3266489909);
      return 4294967296 * (0x1fffff & y) + (x >>> 0);
    },
  };
}

/** The hash of a chain's rules, in order. */
export function hashRules(rules: readonly string[]): number {
  const hash = createTextHash();
  for (const rule of rules) {
    hash.add(rule);
    hash.add("\n");
  }
  return hash.value();
}
