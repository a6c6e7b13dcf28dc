/** The members of a list response other than its items, parsed. */
export type ListEnvelope = Readonly<Record<string, unknown>>;

/** Parses one list response incrementally and emits its items one by one. */
export interface ItemScanner {
  /** Parses the next bytes; emits every item that ends in them before it returns. Throws a SyntaxError. */
  push(chunk: Uint8Array): void;
  /** Ends the response and returns its other members. Throws a SyntaxError if it is incomplete. */
  end(): ListEnvelope;
}

const QUOTE = 0x22, COMMA = 0x2c, COLON = 0x3a, BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b, CLOSE_BRACKET = 0x5d, OPEN_BRACE = 0x7b, CLOSE_BRACE = 0x7d;

/** The next expected token. */
const enum Expect {
  Start,
  KeyOrEnd,
  Colon,
  Value,
  CommaOrEnd,
  ItemOrEnd,
  ItemCommaOrEnd,
  End,
}

/** The role of the value being read. */
const enum Role {
  Key,
  Member,
  Item,
}

/**
 * A scanner for a JSON object with an array `items`. It finds the bounds of each item in the bytes and parses the item alone,
 * so that memory holds one item at a time regardless of the list's length. `end` returns the other members: a list's
 * `metadata`, before or after the items, or an entire Status.
 */
export function createItemScanner(onItem: (item: unknown) => void): ItemScanner {
  const decoder = new TextDecoder();
  const envelope: Record<string, unknown> = {};
  let expect = Expect.Start;
  let key = "";
  let scanned = 0;

  // The value being read: its part in earlier chunks, and the nesting depth of the scan.
  let reading = false;
  let role = Role.Key;
  let carried: Uint8Array[] = [];
  let depth = 0;
  let inString = false;
  let escaped = false;
  let scalar = false;

  /** Continues a value; returns the offset after its last byte, or -1 if this chunk does not contain it. */
  const endOfValue = (bytes: Uint8Array, from: number): number => {
    const length = bytes.length;
    for (let i = from; i < length; i++) {
      const byte = bytes[i]!;
      if (inString) {
        if (escaped) escaped = false;
        else if (byte === BACKSLASH) escaped = true;
        else if (byte === QUOTE) {
          inString = false;
          if (depth === 0) return i + 1;
        }
      } else if (scalar) {
        if (isSpace(byte) || byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET) return i;
      } else if (byte === QUOTE) inString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
      else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return i + 1;
    }
    return -1;
  };

  const startValue = (byte: number, as: Role) => {
    reading = true;
    role = as;
    depth = 0;
    inString = false;
    scalar = byte !== QUOTE && byte !== OPEN_BRACE && byte !== OPEN_BRACKET;
  };

  const finishValue = (bytes: Uint8Array) => {
    reading = false;
    const value: unknown = JSON.parse(decoder.decode(bytes));
    if (role === Role.Key) {
      key = String(value);
      expect = Expect.Colon;
    } else if (role === Role.Member) {
      // defineProperty, because a member may have any name, including `__proto__`.
      Object.defineProperty(envelope, key, { value, enumerable: true, configurable: true, writable: true });
      expect = Expect.CommaOrEnd;
    } else {
      expect = Expect.ItemCommaOrEnd;
      onItem(value);
    }
  };

  const unexpected = (byte: number, offset: number): never => {
    throw new SyntaxError(
      `unexpected ${JSON.stringify(String.fromCharCode(byte))} at byte ${scanned + offset} of the response`,
    );
  };

  /** Consumes one byte between values; returns whether a value starts with it. */
  const startsValue = (byte: number, offset: number): boolean => {
    switch (expect) {
      case Expect.Start:
        if (byte !== OPEN_BRACE) unexpected(byte, offset);
        expect = Expect.KeyOrEnd;
        return false;
      case Expect.KeyOrEnd:
        if (byte === CLOSE_BRACE) {
          expect = Expect.End;
          return false;
        }
        if (byte !== QUOTE) unexpected(byte, offset);
        startValue(byte, Role.Key);
        return true;
      case Expect.Colon:
        if (byte !== COLON) unexpected(byte, offset);
        expect = Expect.Value;
        return false;
      case Expect.Value:
        if (key === "items" && byte === OPEN_BRACKET) {
          expect = Expect.ItemOrEnd;
          return false;
        }
        startValue(byte, Role.Member);
        return true;
      case Expect.CommaOrEnd:
        if (byte !== COMMA && byte !== CLOSE_BRACE) unexpected(byte, offset);
        expect = byte === COMMA ? Expect.KeyOrEnd : Expect.End;
        return false;
      case Expect.ItemOrEnd:
        if (byte === CLOSE_BRACKET) {
          expect = Expect.CommaOrEnd;
          return false;
        }
        startValue(byte, Role.Item);
        return true;
      case Expect.ItemCommaOrEnd:
        if (byte !== COMMA && byte !== CLOSE_BRACKET) unexpected(byte, offset);
        expect = byte === COMMA ? Expect.ItemOrEnd : Expect.CommaOrEnd;
        return false;
      case Expect.End:
        return unexpected(byte, offset);
    }
  };

  return {
    push(chunk) {
      let at = 0;
      let valueFrom = 0;
      while (at < chunk.length) {
        if (!reading) {
          const byte = chunk[at]!;
          if (isSpace(byte) || !startsValue(byte, at)) {
            at++;
            continue;
          }
          valueFrom = at;
        }
        const end = endOfValue(chunk, at);
        if (end === -1) {
          carried.push(chunk.slice(valueFrom));
          break;
        }
        const part = chunk.subarray(valueFrom, end);
        const whole = carried.length === 0 ? part : joined([...carried, part]);
        carried = [];
        finishValue(whole);
        at = end;
      }
      scanned += chunk.length;
    },
    end() {
      if (expect !== Expect.End) throw new SyntaxError(`the response breaks off after ${scanned} bytes`);
      return envelope;
    },
  };
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
