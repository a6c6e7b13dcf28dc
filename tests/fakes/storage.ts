import type { Storage } from "../../sources/kept/state_file.ts";

/** A file in memory whose power can be cut in the middle of a write. */
export interface FakeStorage extends Storage {
  /** Returns a copy of its bytes. */
  bytes(): Uint8Array;
  /** Writes this many more bytes; then every write and sync fails. */
  cutAfter(bytes: number): void;
  /** The number of bytes written so far. */
  written(): number;
  /** The numbers of bytes written, each of whose last changed the content. */
  changes(): readonly number[];
}

/** Creates a file with this content. */
export function createFakeStorage(content: Uint8Array = new Uint8Array()): FakeStorage {
  let bytes = content.slice();
  let left = Infinity;
  let written = 0;
  const changes: number[] = [];
  return {
    read: (offset, length) => Promise.resolve(bytes.slice(offset, offset + length) as Uint8Array<ArrayBuffer>),
    write(offset, added) {
      const kept = added.subarray(0, Math.min(left, added.length));
      kept.forEach((byte, i) => {
        if (bytes[offset + i] !== byte) changes.push(written + i + 1);
      });
      const grown = new Uint8Array(Math.max(bytes.length, offset + kept.length));
      grown.set(bytes);
      grown.set(kept, offset);
      bytes = grown;
      left -= kept.length;
      written += kept.length;
      return kept.length < added.length ? Promise.reject(new Error("No space left on device")) : Promise.resolve();
    },
    sync: () => Promise.resolve(),
    bytes: () => bytes.slice(),
    cutAfter(count) {
      left = count;
    },
    written: () => written,
    changes: () => changes,
  };
}
