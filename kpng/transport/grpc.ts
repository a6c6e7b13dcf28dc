/** gRPC's status codes, and its framing of messages: a compression flag, four bytes of length, the message. */

/** The gRPC status codes. */
export const STATUS = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

/** Thrown to end a call with a status. */
export class StatusError extends Error {
  override readonly name = "StatusError";
  /** `status` is one of STATUS; the message goes to the client. */
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const NAMES = Object.keys(STATUS);

/** The status of a call that was answered with an HTTP status only (gRPC: http-grpc-status-mapping.md). */
const STATUS_OF_HTTP: Readonly<Record<number, number>> = {
  400: STATUS.INTERNAL,
  401: STATUS.UNAUTHENTICATED,
  403: STATUS.PERMISSION_DENIED,
  404: STATUS.UNIMPLEMENTED,
  429: STATUS.UNAVAILABLE,
  502: STATUS.UNAVAILABLE,
  503: STATUS.UNAVAILABLE,
  504: STATUS.UNAVAILABLE,
};

/** Formats a status for a log line: `RESOURCE_EXHAUSTED: too many watchers`. */
export function statusText(code: number, message: string): string {
  const name = NAMES[code] ?? `status ${code}`;
  return message === "" ? name : `${name}: ${message}`;
}

/** Formats an HTTP status that came instead of a gRPC one: `HTTP status 503 (UNAVAILABLE)`. */
export function httpStatusText(httpStatus: number): string {
  return `HTTP status ${httpStatus} (${NAMES[STATUS_OF_HTTP[httpStatus] ?? STATUS.UNKNOWN]})`;
}

/** A message as a `grpc-message` header: percent-encoded UTF-8 (gRPC: PROTOCOL-HTTP2.md). */
export function encodeStatusMessage(message: string): string {
  return encodeURIComponent(message).replaceAll("%20", " ");
}

/** The message of a `grpc-message` header; one that is not encoded stays as it is. */
export function decodeStatusMessage(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}

const HEADER_BYTES = 5;

/** Frames messages. */
export function framesOf(messages: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return frame(messages, (length) => new Uint8Array(length));
}

/** Frames messages in memory that workers can share. */
export function sharedFramesOf(messages: readonly Uint8Array[]): Uint8Array<SharedArrayBuffer> {
  return frame(messages, (length) => new Uint8Array(new SharedArrayBuffer(length)));
}

function frame<T extends Uint8Array>(messages: readonly Uint8Array[], allocate: (length: number) => T): T {
  const frames = allocate(messages.reduce((sum, { length }) => sum + HEADER_BYTES + length, 0));
  const view = new DataView(frames.buffer);
  let at = 0;
  for (const message of messages) {
    view.setUint32(at + 1, message.length);
    frames.set(message, at + HEADER_BYTES);
    at += HEADER_BYTES + message.length;
  }
  return frames;
}

/** Splits a stream of bytes into messages. */
interface FrameReader {
  /** Returns the messages that end in these bytes. Throws StatusError for one that is too long or compressed. */
  push(bytes: Uint8Array): Uint8Array<ArrayBuffer>[];
  /** Whether a message has begun and not ended. */
  isInside(): boolean;
}

/** A reader of messages of at most `longestBytes`; it holds at most one of them, and copies each byte once. */
export function createFrameReader(longestBytes: number): FrameReader {
  const header = new Uint8Array(HEADER_BYTES);
  // Undefined while the header is read.
  let message: Uint8Array<ArrayBuffer> | undefined;
  let filled = 0;

  const startMessage = () => {
    const length = new DataView(header.buffer).getUint32(1);
    if (header[0] === 1) throw new StatusError(STATUS.UNIMPLEMENTED, "compressed messages are not supported");
    if (header[0] !== 0) throw new StatusError(STATUS.INTERNAL, `a message has the unknown flag ${header[0]}`);
    if (length > longestBytes) {
      throw new StatusError(
        STATUS.RESOURCE_EXHAUSTED,
        `a message has ${length} bytes, more than the limit of ${longestBytes}`,
      );
    }
    return new Uint8Array(length);
  };

  return {
    isInside: () => filled > 0 || message !== undefined,
    push(bytes) {
      const messages: Uint8Array<ArrayBuffer>[] = [];
      let at = 0;
      do {
        const target = message ?? header;
        const taken = bytes.subarray(at, at + target.length - filled);
        target.set(taken, filled);
        filled += taken.length;
        at += taken.length;
        if (filled < target.length) break;
        filled = 0;
        if (message !== undefined) messages.push(message);
        message = message === undefined ? startMessage() : undefined;
      } while (at < bytes.length || message?.length === 0);
      return messages;
    },
  };
}
