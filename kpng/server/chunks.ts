import { framesOf } from "../transport/mod.ts";

/** Operations on their way out, in pieces of some size, so that whoever writes them can wait in between. */
export interface Chunks {
  /** The piece of that number, from 0; undefined after the last one. */
  at(index: number): Uint8Array<ArrayBuffer> | undefined;
}

/** How many bytes make a piece. */
const CHUNK_BYTES = 32 * 1024;

/** Pieces that are made when they are asked for, and forgotten: each can be asked for once, in order. */
export function passingChunks(operations: Iterable<Uint8Array>): Chunks {
  const iterator = operations[Symbol.iterator]();
  return { at: () => nextChunk(iterator) };
}

/** Pieces that are made when somebody asks for them first, and kept for the others who will. */
export function sharedChunks(operations: Iterable<Uint8Array>): Chunks {
  const iterator = operations[Symbol.iterator]();
  const made: (Uint8Array<ArrayBuffer> | undefined)[] = [];
  return {
    at(index) {
      while (made.length <= index && (made.length === 0 || made[made.length - 1] !== undefined)) {
        made.push(nextChunk(iterator));
      }
      return made[index];
    },
  };
}

function nextChunk(iterator: Iterator<Uint8Array>): Uint8Array<ArrayBuffer> | undefined {
  const messages: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < CHUNK_BYTES) {
    const { done, value } = iterator.next();
    if (done) break;
    messages.push(value);
    bytes += value.length;
  }
  return messages.length === 0 ? undefined : framesOf(messages);
}
