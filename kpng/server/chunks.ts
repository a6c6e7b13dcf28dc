import { framesOf, sharedFramesOf } from "../transport/mod.ts";

/** Operations in chunks, so that the writer can wait in between. */
export interface Chunks {
  /** Whether the chunks are kept for several watchers; else, each can be read once, in order. */
  readonly isShared: boolean;
  /** The chunk of that index; undefined after the last one. */
  at(index: number): Uint8Array | undefined;
}

/** Chunks that may be computed by another isolate. */
export interface AwaitedChunks {
  /** The chunk of that index; undefined after the last one. */
  at(index: number): Uint8Array | undefined | Promise<Uint8Array | undefined>;
}

/**
 * The size of a chunk: fewer, larger writes take less CPU, but one beyond HTTP/2's default window (65,535 bytes) waits in memory
 * for the reader.
 */
const CHUNK_BYTES = 60 * 1024;

/** Chunks that are created on demand and not kept: each can be read once, in order. */
export function lazyChunks(operations: Iterable<Uint8Array>): Chunks {
  const iterator = operations[Symbol.iterator]();
  return { isShared: false, at: () => nextChunk(iterator, framesOf) };
}

/** Chunks that are created on demand and kept for other watchers, in memory that workers can share. */
export function sharedChunks(operations: Iterable<Uint8Array>): Chunks {
  const iterator = operations[Symbol.iterator]();
  const made: (Uint8Array | undefined)[] = [];
  return {
    isShared: true,
    at(index) {
      while (made.length <= index && (made.length === 0 || made[made.length - 1] !== undefined)) {
        made.push(nextChunk(iterator, sharedFramesOf));
      }
      return made[index];
    },
  };
}

/** Chunks of frames that are created on demand and not kept; long pieces are split, the others stay as they are. */
export function splitChunks(pieces: Iterable<Uint8Array<ArrayBuffer>>): Chunks {
  const iterator = pieces[Symbol.iterator]();
  let piece: Uint8Array<ArrayBuffer> | undefined;
  return {
    isShared: false,
    at() {
      while (piece === undefined || piece.length === 0) {
        const { done, value } = iterator.next();
        if (done) return undefined;
        piece = value;
      }
      const chunk = piece.subarray(0, CHUNK_BYTES);
      piece = piece.subarray(chunk.length);
      return chunk;
    },
  };
}

function nextChunk<T>(iterator: Iterator<Uint8Array>, frame: (messages: readonly Uint8Array[]) => T): T | undefined {
  const messages: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < CHUNK_BYTES) {
    const { done, value } = iterator.next();
    if (done) break;
    messages.push(value);
    bytes += value.length;
  }
  return messages.length === 0 ? undefined : frame(messages);
}
