/** Writes protobuf's encoding. One writer can write many messages. */
export interface Writer {
  /** Writes the key of a field: its number and wire type (0 varint, 1 eight bytes, 2 length and bytes). */
  key(field: number, wireType: 0 | 1 | 2): void;
  /** Writes an integer of up to 53 bits; a negative one takes ten bytes, like protobuf's int32 and int64. */
  varint(value: number): void;
  /** Writes an unsigned 64-bit integer. */
  uint64(value: bigint): void;
  double(value: number): void;
  string(value: string): void;
  bytes(value: Uint8Array): void;
  /** Writes the output of `write` after its length. */
  sized(write: () => void): void;
  /** Returns a copy of the bytes since the last call, and clears the writer. */
  finish(): Uint8Array<ArrayBuffer>;
}

const utf8 = new TextEncoder();
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
        at += utf8.encodeInto(value, buffer.subarray(at)).written;
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
