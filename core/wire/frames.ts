/** gRPC's framing of messages: a byte that says "not compressed", four bytes of length, the message. */
import { WireError } from "./reader.ts";

const HEADER_BYTES = 5;

/** The bytes of some messages in a row. */
export function framesOf(messages: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const frames = new Uint8Array(messages.reduce((sum, { length }) => sum + HEADER_BYTES + length, 0));
  const view = new DataView(frames.buffer);
  let at = 0;
  for (const message of messages) {
    view.setUint32(at + 1, message.length);
    frames.set(message, at + HEADER_BYTES);
    at += HEADER_BYTES + message.length;
  }
  return frames;
}

/** Takes a stream of bytes apart into messages. */
export interface FrameReader {
  /** The messages that are complete with these bytes. Throws WireError for one that is too long or compressed. */
  push(bytes: Uint8Array): Uint8Array<ArrayBuffer>[];
}

/** A reader of messages of at most so many bytes; it never holds more than one of them. */
export function createFrameReader(longestBytes: number): FrameReader {
  let rest = new Uint8Array(0);
  return {
    push(bytes) {
      const all = new Uint8Array(rest.length + bytes.length);
      all.set(rest);
      all.set(bytes, rest.length);
      const view = new DataView(all.buffer);
      const messages: Uint8Array<ArrayBuffer>[] = [];
      let at = 0;
      while (all.length - at >= HEADER_BYTES) {
        const length = view.getUint32(at + 1);
        if (all[at] !== 0) throw new WireError("a message is compressed, which was not agreed upon");
        if (length > longestBytes) {
          throw new WireError(`a message has ${length} bytes, more than the ${longestBytes} that are allowed`);
        }
        if (all.length - at < HEADER_BYTES + length) break;
        messages.push(all.slice(at + HEADER_BYTES, at + HEADER_BYTES + length));
        at += HEADER_BYTES + length;
      }
      rest = all.slice(at);
      return messages;
    },
  };
}
