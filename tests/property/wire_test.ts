import assert from "node:assert/strict";
import fc from "fast-check";
import { createFrameReader, framesOf } from "../../kpng/transport/grpc.ts";
import { OP_ITEM, WATCH_REQUEST } from "../../kpng/messages/messages.ts";
import { WireError } from "../../kpng/codec/wire.ts";
import { createReceiver } from "../../kpng/receiving/mod.ts";
import {
  bool,
  bytes,
  double,
  int32,
  message,
  nested,
  several,
  text,
  textMap,
  texts,
  uint64,
} from "../../kpng/codec/mod.ts";
import { recordedCalls } from "../fakes/kpng.ts";
import { anyText } from "./any_text.ts";
import { runs } from "./runs.ts";

const INNER = message({ name: text(1), count: int32(2) });
const EVERYTHING = message({
  text: text(1),
  number: int32(2),
  yes: bool(3),
  hash: uint64(4),
  real: double(5),
  raw: bytes(6),
  inner: nested(7, INNER),
  names: texts(8),
  inners: several(9, INNER),
  map: textMap(1001),
});

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const inner = fc.record({
  name: optional(anyText({ minLength: 1 })),
  count: optional(fc.constantFrom(1, 300, -1)),
});
const everything = fc.record({
  text: optional(anyText({ minLength: 1, maxLength: 300 })),
  number: optional(fc.oneof(fc.integer({ min: 1 }), fc.integer({ max: -1 }))),
  yes: optional(fc.constant(true)),
  hash: optional(fc.bigInt({ min: 1n, max: 2n ** 64n - 1n })),
  real: optional(fc.double({ noNaN: true }).filter((value) => value !== 0)),
  raw: optional(fc.uint8Array({ minLength: 1, maxLength: 20_000 }).map((bytes) => new Uint8Array(bytes))),
  inner: optional(inner),
  names: optional(fc.array(fc.string(), { minLength: 1 })),
  inners: optional(fc.array(inner, { minLength: 1 })),
  map: optional(
    fc.dictionary(fc.string().filter((key) => key !== "__proto__"), fc.string(), { minKeys: 1, noNullPrototype: true }),
  ),
});

/** Removes undefined fields, which are absent after decoding. */
const present = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map(present);
  return Object.fromEntries(
    Object.entries(value).filter(([, inner]) => inner !== undefined).map(([key, inner]) => [key, present(inner)]),
  );
};

Deno.test("encoded messages decode to the same values", () => {
  fc.assert(
    fc.property(everything, (value) => {
      assert.deepEqual(present(EVERYTHING.decode(EVERYTHING.encode(value))), present(value));
    }),
    runs(100),
  );
});

Deno.test("frames are decoded regardless of chunk boundaries", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 50 })), fc.integer({ min: 1, max: 20 }), (messages, step) => {
      const stream = framesOf(messages);
      const reader = createFrameReader(50);
      const read = [];
      for (let at = 0; at < stream.length; at += step) read.push(...reader.push(stream.subarray(at, at + step)));
      assert.deepEqual(read.map((bytes) => [...bytes]), messages.map((bytes) => [...bytes]));
    }),
    runs(100),
  );
});

Deno.test("invalid bytes throw a WireError and nothing else", () => {
  const recorded = recordedCalls().flat().flatMap(({ responses }) => responses);
  const garbage = fc.oneof(
    fc.uint8Array({ maxLength: 100 }),
    // A real message with a changed byte, or truncated.
    fc.record({ original: fc.constantFrom(...recorded), at: fc.nat(), byte: fc.nat(255), length: fc.nat() })
      .map(({ original, at, byte, length }) => {
        const changed = new Uint8Array(original);
        changed[at % original.length] = byte;
        return changed.subarray(0, length % (2 * original.length));
      }),
  );
  const sink = { set() {}, delete() {}, synced() {}, reset() {}, problems() {} };
  fc.assert(
    fc.property(garbage, (bytes) => {
      const receiver = createReceiver({ sink, nodeName: "node-a", inFull: true });
      for (const read of [OP_ITEM.decode, WATCH_REQUEST.decode, EVERYTHING.decode, receiver.receive]) {
        try {
          read(new Uint8Array(bytes));
        } catch (error) {
          assert.ok(error instanceof WireError, String(error));
        }
      }
    }),
    runs(1000),
  );
});
