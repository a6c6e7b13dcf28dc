/** HTTP/2's error codes, and the headers of its frames with their checks (RFC 9113 sections 4, 6 and 7). */

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

/** The frames whose payloads are read, up to this many bytes: the explanation in a GOAWAY can be long. */
const READ_TYPES: ReadonlySet<number> = new Set([FRAME.settings, FRAME.goaway, FRAME.windowUpdate]);
const PAYLOAD_BYTES_READ = 256;

/**
 * Reads the header of each frame that an HTTP/2 peer sends after `bytesBefore` bytes, in chunks of any size, and skips the
 * payloads, except that `onPayload` gets the first 256 bytes of each SETTINGS, WINDOW_UPDATE and GOAWAY.
 */
export function createHttp2FrameReader(
  bytesBefore: number,
  onFrame: (frame: FrameHeader) => void,
  onPayload: (frame: FrameHeader, payload: Uint8Array) => void = () => {},
): (bytes: Uint8Array) => void {
  const header = new Uint8Array(HEADER_BYTES);
  const view = new DataView(header.buffer);
  let skip = bytesBefore;
  let have = 0;
  // The frame whose payload is read.
  let read: { readonly frame: FrameHeader; readonly payload: Uint8Array; filled: number } | undefined;
  const endPayload = () => {
    if (read !== undefined) onPayload(read.frame, read.payload);
    read = undefined;
  };
  return (bytes) => {
    let at = 0;
    while (at < bytes.length) {
      if (skip > 0) {
        const skipped = Math.min(skip, bytes.length - at);
        if (read !== undefined) {
          const { payload, filled } = read;
          const kept = bytes.subarray(at, at + Math.min(skipped, payload.length - filled));
          payload.set(kept, filled);
          read.filled += kept.length;
        }
        skip -= skipped;
        at += skipped;
        if (skip === 0) endPayload();
        continue;
      }
      header[have++] = bytes[at++]!;
      if (have < HEADER_BYTES) continue;
      have = 0;
      const length = view.getUint32(0) >>> 8;
      const frame = { length, type: header[3]!, flags: header[4]!, stream: view.getUint32(5) & 0x7fffffff };
      skip = length;
      if (READ_TYPES.has(frame.type)) {
        read = { frame, payload: new Uint8Array(Math.min(length, PAYLOAD_BYTES_READ)), filled: 0 };
      }
      onFrame(frame);
      if (skip === 0) endPayload();
    }
  };
}

/** Reads the payload of SETTINGS; a value that is not set is undefined. */
export function settingsOf(payload: Uint8Array): { readonly initialWindowBytes: number | undefined } {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  let initialWindowBytes: number | undefined;
  for (let at = 0; at + SETTING_BYTES <= payload.length; at += SETTING_BYTES) {
    // The last one counts.
    if (view.getUint16(at) === INITIAL_WINDOW_SIZE) initialWindowBytes = view.getUint32(at + 2);
  }
  return { initialWindowBytes };
}

/** Reads the payload of WINDOW_UPDATE: a number of bytes. */
export function windowIncrementOf(payload: Uint8Array): number {
  if (payload.length < 4) return 0;
  return new DataView(payload.buffer, payload.byteOffset).getUint32(0) & 0x7fffffff;
}

/** Whether the receiver must answer a frame of this type. */
export function needsAnswer(type: number): boolean {
  return type === FRAME.ping || type === FRAME.settings;
}

/** The setting of a stream's window at its start, and the size of each setting (RFC 9113 section 6.5). */
const INITIAL_WINDOW_SIZE = 4;
const SETTING_BYTES = 6;

/** The largest payload that either side allows: the protocol's default. */
const LARGEST_PAYLOAD_BYTES = 16_384;

/** Whether a frame acknowledges a PING. */
export function isPingAck({ type, flags }: FrameHeader): boolean {
  return type === FRAME.ping && (flags & FLAG.ack) !== 0;
}

/**
 * Creates a check of a client's frames by their lengths, streams and order, which returns the problem of the next frame, undefined
 * for a valid one. It is stricter than the protocol in that it allows no trailers, which our clients do not need, and no
 * acknowledged PING, since the server sends none.
 */
export function createClientFrameCheck(): (frame: FrameHeader) => string | undefined {
  let highestStream = 0;
  // The stream whose header block is open; 0 for none.
  let openBlock = 0;

  const isOfClient = (stream: number) => stream % 2 === 1;
  const isKnown = (stream: number) => isOfClient(stream) && stream <= highestStream;

  return ({ length, type, flags, stream }) => {
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
        if (length > PAYLOAD_BYTES_READ) return "SETTINGS that are too long";
        return stream !== 0 || length % SETTING_BYTES !== 0 || has(FLAG.ack) && length !== 0
          ? "broken SETTINGS"
          : undefined;
      case FRAME.pushPromise:
        return "PUSH_PROMISE from a client";
      case FRAME.ping:
        if (stream !== 0 || length !== 8) return "a broken PING";
        return has(FLAG.ack) ? "an acknowledged PING that was not sent" : undefined;
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
}

/** HTTP/2's error codes (RFC 9113 section 7). */
export const ERROR_CODE = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  INTERNAL_ERROR: 2,
  FLOW_CONTROL_ERROR: 3,
  SETTINGS_TIMEOUT: 4,
  STREAM_CLOSED: 5,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  CONNECT_ERROR: 10,
  ENHANCE_YOUR_CALM: 11,
  INADEQUATE_SECURITY: 12,
  HTTP_1_1_REQUIRED: 13,
} as const;

/** The name of an error code, for a log line: `ENHANCE_YOUR_CALM`. */
export function http2ErrorText(code: number): string {
  return Object.keys(ERROR_CODE)[code] ?? `error ${code}`;
}

interface Goaway {
  readonly code: number;
  /** The sender's explanation; often empty. */
  readonly debug: string;
}

/** Reads the payload of a GOAWAY frame; undefined for one that is too short. */
export function readGoaway(payload: Uint8Array): Goaway | undefined {
  if (payload.length < 8) return undefined;
  const code = new DataView(payload.buffer, payload.byteOffset).getUint32(4);
  // The explanation is another program's text and goes to a log line.
  const debug = new TextDecoder().decode(payload.subarray(8)).replace(/[^\x20-\x7e]/g, "?");
  return { code, debug };
}
