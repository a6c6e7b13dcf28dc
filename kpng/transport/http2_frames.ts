/** Reads and checks the headers of HTTP/2 frames (RFC 9113 sections 4 and 6). */

/** The types of HTTP/2 frames. */
export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

const FLAG = { ack: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

/** The header of a frame. */
export interface FrameHeader {
  /** The length of the payload, in bytes. */
  readonly length: number;
  readonly type: number;
  readonly flags: number;
  /** The stream's number, without the reserved bit; 0 for the connection. */
  readonly stream: number;
}

/** The length of the preface that a client sends before its first frame; a server has none. */
export const PREFACE_BYTES = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".length;
const HEADER_BYTES = 9;

/** The bytes of a GOAWAY's payload that are kept: its explanation can be long. */
const GOAWAY_BYTES_KEPT = 256;

/**
 * Reads the header of each frame that an HTTP/2 peer sends after `bytesBefore` bytes, in chunks of any size, and skips the
 * payloads, except that `onGoaway` gets the first 256 bytes of a GOAWAY's.
 */
export function createHttp2FrameReader(
  bytesBefore: number,
  onFrame: (frame: FrameHeader) => void,
  onGoaway: (payload: Uint8Array) => void = () => {},
): (bytes: Uint8Array) => void {
  const header = new Uint8Array(HEADER_BYTES);
  const view = new DataView(header.buffer);
  let skip = bytesBefore;
  let have = 0;
  // Undefined outside of a GOAWAY.
  let kept: number[] | undefined;
  const endGoaway = () => {
    if (kept !== undefined) onGoaway(Uint8Array.from(kept));
    kept = undefined;
  };
  return (bytes) => {
    let at = 0;
    while (at < bytes.length) {
      if (skip > 0) {
        const skipped = Math.min(skip, bytes.length - at);
        if (kept !== undefined) {
          kept.push(...bytes.subarray(at, at + Math.min(skipped, GOAWAY_BYTES_KEPT - kept.length)));
        }
        skip -= skipped;
        at += skipped;
        if (skip === 0) endGoaway();
        continue;
      }
      header[have++] = bytes[at++]!;
      if (have < HEADER_BYTES) continue;
      have = 0;
      const length = view.getUint32(0) >>> 8;
      skip = length;
      kept = header[3] === FRAME.goaway ? [] : undefined;
      onFrame({ length, type: header[3]!, flags: header[4]!, stream: view.getUint32(5) & 0x7fffffff });
      if (skip === 0) endGoaway();
    }
  };
}

/** Whether the receiver must answer a frame of this type. */
export function needsAnswer(type: number): boolean {
  return type === FRAME.ping || type === FRAME.settings;
}

/** The largest payload that either side allows: the protocol's default. */
const LARGEST_PAYLOAD_BYTES = 16_384;

/** Checks the frames of a client by their headers. */
export interface ClientFrameCheck {
  /** A PING was sent to the client, which may acknowledge it once. */
  pinged(): void;
  /** The problem of the client's next frame; undefined if it is valid. */
  problemOf(frame: FrameHeader): string | undefined;
}

/** Whether a frame acknowledges a PING. */
export function isPingAck({ type, flags }: FrameHeader): boolean {
  return type === FRAME.ping && (flags & FLAG.ack) !== 0;
}

/**
 * Checks lengths, streams, the order of frames, and that only sent PINGs are acknowledged. It is stricter than the protocol in
 * that it allows no trailers, which our clients do not need.
 */
export function createClientFrameCheck(): ClientFrameCheck {
  let highestStream = 0;
  let pingsOpen = 0;
  // The stream whose header block is open; 0 for none.
  let openBlock = 0;

  const isOfClient = (stream: number) => stream % 2 === 1;
  const isKnown = (stream: number) => isOfClient(stream) && stream <= highestStream;

  const problemOf = ({ length, type, flags, stream }: FrameHeader): string | undefined => {
    const has = (flag: number) => (flags & flag) !== 0;
    if (length > LARGEST_PAYLOAD_BYTES) return "a payload that is too long";
    if (openBlock !== 0 && !(type === FRAME.continuation && stream === openBlock)) return "an interrupted header block";
    switch (type) {
      case FRAME.data:
        if (!isKnown(stream)) return "DATA of no stream";
        return has(FLAG.padded) && length < 1 ? "DATA without its padding" : undefined;
      case FRAME.headers: {
        if (!isOfClient(stream) || stream <= highestStream) return "HEADERS of no new stream";
        const least = (has(FLAG.padded) ? 1 : 0) + (has(FLAG.priority) ? 5 : 0);
        if (length < least) return "HEADERS that are too short";
        highestStream = stream;
        openBlock = has(FLAG.endHeaders) ? 0 : stream;
        return undefined;
      }
      case FRAME.priority:
        return stream === 0 || length !== 5 ? "a broken PRIORITY" : undefined;
      case FRAME.reset:
        return !isKnown(stream) || length !== 4 ? "a broken RST_STREAM" : undefined;
      case FRAME.settings:
        return stream !== 0 || length % 6 !== 0 || has(FLAG.ack) && length !== 0 ? "broken SETTINGS" : undefined;
      case FRAME.pushPromise:
        return "PUSH_PROMISE from a client";
      case FRAME.ping:
        if (stream !== 0 || length !== 8) return "a broken PING";
        return has(FLAG.ack) && pingsOpen-- === 0 ? "an acknowledged PING that was not sent" : undefined;
      case FRAME.goaway:
        return stream !== 0 || length < 8 ? "a broken GOAWAY" : undefined;
      case FRAME.windowUpdate:
        return length !== 4 || stream !== 0 && !isKnown(stream) ? "a broken WINDOW_UPDATE" : undefined;
      case FRAME.continuation:
        if (openBlock === 0) return "CONTINUATION of nothing";
        if (has(FLAG.endHeaders)) openBlock = 0;
        return undefined;
      default:
        return undefined;
    }
  };

  return {
    pinged() {
      pingsOpen++;
    },
    problemOf,
  };
}
