/** Thrown for bytes that are not a valid message. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** Reads protobuf's encoding. All methods throw WireError for truncated or invalid bytes. */
export interface Reader {
  atEnd(): boolean;
  key(): { readonly field: number; readonly wireType: number };
  /** An integer; one that does not fit into 53 bits is truncated to its low 32. */
  varint(): number;
  uint64(): bigint;
  double(): number;
  string(): string;
  /** A view of the bytes read from, not a copy. */
  bytes(): Uint8Array<ArrayBuffer>;
  /** Skips the value of an unknown field; a group (wire type 3) with everything up to its end, other groups included. */
  skip(field: number, wireType: number): void;
}

/** The wire types of the beginning and the end of a group, proto2's form of nested messages. */
const GROUP = { start: 3, end: 4 } as const;

/** The depth to which groups may nest, protobuf's own default for messages. */
const GROUP_DEPTH = 100;

const utf8Decoder = new TextDecoder("utf-8", { fatal: true });

/** A reader at the beginning of these bytes. */
export function createReader(source: Uint8Array<ArrayBuffer>): Reader {
  const view = new DataView(source.buffer, source.byteOffset, source.byteLength);
  let at = 0;

  const take = (length: number): number => {
    if (length > source.length - at) throw new WireError("a message ends in the middle of a field");
    const start = at;
    at += length;
    return start;
  };

  const uint64 = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = source[take(1)]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new WireError("a number has more than ten bytes");
  };

  const varint = (): number => {
    const start = at;
    let value = 0;
    for (let factor = 1; at - start < 7; factor *= 128) {
      const byte = source[take(1)]!;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    // A negative 32-bit number is written in ten bytes.
    at = start;
    return Number(BigInt.asIntN(32, uint64()));
  };

  const bytes = () => {
    const length = varint();
    if (length < 0) throw new WireError("a field has a negative length");
    const start = take(length);
    return source.subarray(start, start + length);
  };

  const key = () => {
    const key = varint();
    const field = Math.floor(key / 8);
    if (key < 8 || field > 0x1fffffff) throw new WireError("a field has an invalid number");
    return { field, wireType: key % 8 };
  };

  const reader: Reader = {
    atEnd: () => at >= source.length,
    key,
    varint,
    uint64,
    double: () => view.getFloat64(take(8), true),
    string() {
      try {
        return utf8Decoder.decode(bytes());
      } catch (error) {
        if (error instanceof WireError) throw error;
        throw new WireError("a string is not UTF-8");
      }
    },
    bytes,
    skip(field, wireType) {
      if (wireType === GROUP.end) throw new WireError(`group ${field} ends without a start`);
      if (wireType === GROUP.start) skipGroup(reader, field);
      else if (wireType === 0) uint64();
      else if (wireType === 1) take(8);
      else if (wireType === 2) bytes();
      else if (wireType === 5) take(4);
      else throw new WireError(`a field has the unknown wire type ${wireType}`);
    },
  };
  return reader;
}

/** Skips the rest of a group, without recursion. */
function skipGroup(reader: Reader, started: number): void {
  const open = [started];
  while (open.length > 0) {
    const { field, wireType } = reader.key();
    if (wireType === GROUP.end) {
      if (open.pop() !== field) throw new WireError(`group ${field} ends in another group`);
    } else if (wireType === GROUP.start) {
      if (open.push(field) > GROUP_DEPTH) throw new WireError(`groups nest deeper than ${GROUP_DEPTH}`);
    } else reader.skip(field, wireType);
  }
}

/** Writes protobuf's encoding. One writer can write many messages. */
export interface Writer {
  /** Writes the key of a field: its number and wire type (0 varint, 1 eight bytes, 2 length and bytes). */
  key(field: number, wireType: 0 | 1 | 2): void;
  /** Writes an integer of up to 53 bits; a negative one takes ten bytes, like protobuf's int32 and int64. */
  varint(value: number): void;
  uint64(value: bigint): void;
  double(value: number): void;
  string(value: string): void;
  bytes(value: Uint8Array): void;
  /** Writes the output of `write` after its length. */
  sized(write: () => void): void;
  /** Returns a copy of the bytes since the last call, and clears the writer. */
  finish(): Uint8Array<ArrayBuffer>;
}

const utf8Encoder = new TextEncoder();
/** The maximum number of UTF-8 bytes per UTF-16 unit. */
const UTF8_PER_UNIT = 3;

/** An empty writer. */
export function createWriter(): Writer {
  let buffer = new Uint8Array(1024);
  let view = new DataView(buffer.buffer);
  let at = 0;

  const reserve = (size: number) => {
    if (at + size <= buffer.length) return;
    const larger = new Uint8Array(Math.max(2 * buffer.length, at + size));
    larger.set(buffer);
    buffer = larger;
    view = new DataView(buffer.buffer);
  };

  const varint = (value: number) => {
    if (value < 0) return uint64(BigInt.asUintN(64, BigInt(value)));
    reserve(10);
    while (value > 0x7f) {
      buffer[at++] = (value & 0x7f) | 0x80;
      value = Math.floor(value / 128);
    }
    buffer[at++] = value;
  };

  const uint64 = (value: bigint) => {
    reserve(10);
    while (value > 0x7fn) {
      buffer[at++] = Number(value & 0x7fn) | 0x80;
      value >>= 7n;
    }
    buffer[at++] = Number(value);
  };

  // The length is only known afterwards: one byte is reserved for it, and the content is moved if it needs more.
  const sized = (write: () => void) => {
    reserve(1);
    const start = ++at;
    write();
    const length = at - start;
    if (length <= 0x7f) {
      buffer[start - 1] = length;
      return;
    }
    const more = length < 0x4000 ? 1 : length < 0x200000 ? 2 : length < 0x10000000 ? 3 : 4;
    reserve(more);
    buffer.copyWithin(start + more, start, at);
    at = start - 1;
    varint(length);
    at += length;
  };

  return {
    key: (field, wireType) => varint(field * 8 + wireType),
    varint,
    uint64,
    double(value) {
      reserve(8);
      view.setFloat64(at, value, true);
      at += 8;
    },
    string(value) {
      sized(() => {
        reserve(value.length * UTF8_PER_UNIT);
        at += utf8Encoder.encodeInto(value, buffer.subarray(at)).written;
      });
    },
    bytes(value) {
      varint(value.length);
      reserve(value.length);
      buffer.set(value, at);
      at += value.length;
    },
    sized,
    finish() {
      const written = buffer.slice(0, at);
      at = 0;
      return written;
    },
  };
}
