/** Thrown for bytes that are not a valid message. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** Reads protobuf's encoding. All methods throw WireError for truncated or invalid bytes. */
export interface Reader {
  /** Whether everything was read. */
  atEnd(): boolean;
  /** The next field's number and wire type. */
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

const utf8 = new TextDecoder("utf-8", { fatal: true });

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

  const skipGroup = (started: number) => {
    const open = [started];
    while (open.length > 0) {
      const { field, wireType } = key();
      if (wireType === GROUP.end) {
        if (open.pop() !== field) throw new WireError(`group ${field} ends in another group`);
      } else if (wireType === GROUP.start) {
        if (open.push(field) > GROUP_DEPTH) throw new WireError(`groups nest deeper than ${GROUP_DEPTH}`);
      } else skipValue(wireType);
    }
  };

  const skipValue = (wireType: number) => {
    if (wireType === 0) uint64();
    else if (wireType === 1) take(8);
    else if (wireType === 2) bytes();
    else if (wireType === 5) take(4);
    else throw new WireError(`a field has the unknown wire type ${wireType}`);
  };

  return {
    atEnd: () => at >= source.length,
    key,
    varint,
    uint64,
    double: () => view.getFloat64(take(8), true),
    string() {
      try {
        return utf8.decode(bytes());
      } catch (error) {
        if (error instanceof WireError) throw error;
        throw new WireError("a string is not UTF-8");
      }
    },
    bytes,
    skip(field, wireType) {
      if (wireType === GROUP.end) throw new WireError(`group ${field} ends without a start`);
      if (wireType === GROUP.start) skipGroup(field);
      else skipValue(wireType);
    },
  };
}
