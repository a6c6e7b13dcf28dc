/** Hand-made HTTP/2 frames, for hostile peers. */
import { FRAME } from "../../kpng/transport/http2.ts";

/** Frame types, RFC 9113 section 6. */
export const TYPE = FRAME;

/** Frame flags; END_STREAM has the number of ACK. */
export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8 } as const;

/** A received frame. */
export interface RawFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Uint8Array;
}

type Bytes = Uint8Array<ArrayBuffer>;

const PREFACE = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Concatenates byte arrays. */
export function joined(...pieces: readonly Uint8Array[]): Bytes {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** Zero bytes. */
export function zeros(count: number): Bytes {
  return new Uint8Array(count);
}

/** A number in four bytes. */
export function uint32(value: number): Bytes {
  return Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
}

/** One frame. */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array = zeros(0)): Bytes {
  return joined(uint32(payload.length).subarray(1), Uint8Array.of(type, flags), uint32(stream), payload);
}

/** A SETTINGS frame of these identifiers and values. */
export function settings(...values: readonly (readonly [number, number])[]): Bytes {
  return frame(
    TYPE.settings,
    0,
    0,
    joined(...values.map(([id, value]) => joined(Uint8Array.of(0, id), uint32(value)))),
  );
}

/** A header in HPACK, literal and without index; both texts are shorter than 127 bytes. */
export function header(name: string, value: string): Bytes {
  const text = (text: string) => joined(Uint8Array.of(text.length), new TextEncoder().encode(text));
  return joined(Uint8Array.of(0), text(name), text(value));
}

/** The header block of a gRPC call. */
export function callHeaders(path: string, ...more: readonly Uint8Array[]): Bytes {
  return joined(
    header(":method", "POST"),
    header(":scheme", "http"),
    header(":path", path),
    header(":authority", "localhost"),
    header("content-type", "application/grpc"),
    header("te", "trailers"),
    ...more,
  );
}

/** The frames of a call whose request is empty. */
export function callFrames(stream: number, path: string): Bytes {
  return joined(
    frame(TYPE.headers, FLAG.endHeaders, stream, callHeaders(path)),
    frame(TYPE.data, 0, stream, zeros(5)),
  );
}

/** A raw connection. */
export interface RawConnection {
  /** Sends bytes; returns false if the connection is closed. */
  send(...pieces: readonly Uint8Array[]): Promise<boolean>;
  /** Reads up to the next frame of this type and these flags. Throws an Error if the peer closes the connection before it. */
  next(type: number, flags: number): Promise<RawFrame>;
  /** Reads until the peer closes the connection or sends a last frame, and returns its frames that are not read yet. */
  frames(isLast?: (frame: RawFrame) => boolean): Promise<readonly RawFrame[]>;
  close(): void;
}

/** Wraps a connection. */
export function rawConnection(connection: Deno.Conn): RawConnection {
  const received: RawFrame[] = [];
  let partial = zeros(0);
  /** Reads more frames; returns false at the end. */
  const read = async () => {
    const buffer = zeros(65536);
    const count = await connection.read(buffer).catch(() => null);
    if (count === null) return false;
    partial = takeFrames(joined(partial, buffer.subarray(0, count)), received);
    return true;
  };
  return {
    async send(...pieces) {
      const bytes = joined(...pieces);
      try {
        for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
        return true;
      } catch {
        return false;
      }
    },
    async next(type, flags) {
      for (;;) {
        const frame = received.shift();
        if (frame?.type === type && frame.flags === flags) return frame;
        if (frame === undefined && !await read()) {
          throw new Error(`closed before a frame of type ${type} with flags ${flags}`);
        }
      }
    },
    async frames(isLast = () => false) {
      while (!received.some(isLast) && await read());
      return received;
    },
    close() {
      try {
        connection.close();
      } catch {
        // The peer has closed it.
      }
    },
  };
}

/** Connects to 127.0.0.1 and sends the client preface and these frames in the same packet. */
export async function connectRaw(port: number, ...first: readonly Uint8Array[]): Promise<RawConnection> {
  const connection = rawConnection(await Deno.connect({ hostname: "127.0.0.1", port }));
  await connection.send(PREFACE, settings(), ...first);
  return connection;
}

/** Appends the frames in these bytes to `frames`; returns the bytes of an incomplete one. */
function takeFrames(bytes: Bytes, frames: RawFrame[]): Bytes {
  const view = new DataView(bytes.buffer);
  for (let at = 0;;) {
    const end = at + 9 <= bytes.length ? at + 9 + (view.getUint32(at) >>> 8) : Infinity;
    if (end > bytes.length) return bytes.slice(at);
    const stream = view.getUint32(at + 5);
    frames.push({ type: bytes[at + 3]!, flags: bytes[at + 4]!, stream, payload: bytes.subarray(at + 9, end) });
    at = end;
  }
}

/** The error code of the last GOAWAY among these; undefined without one. */
export function goawayCode(frames: readonly RawFrame[]): number | undefined {
  const payload = frames.findLast(({ type }) => type === TYPE.goaway)?.payload;
  return payload && new DataView(payload.buffer, payload.byteOffset).getUint32(4);
}
