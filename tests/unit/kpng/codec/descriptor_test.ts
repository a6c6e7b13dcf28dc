import assert from "node:assert/strict";
import { fileDescriptor, type ProtoFile, symbolsOf } from "../../../../kpng/codec/descriptor.ts";
import { double, int32, message, nested, several, text, textMap } from "../../../../kpng/codec/schema.ts";

const COLOR = { RED: 0, BLUE: 2 } as const;
const PART = message({ name: text(1) });
const THING = message({
  itsColor: int32(1, COLOR),
  part: nested(2, PART),
  parts: several(3, PART),
  labels: textMap(4),
  size: double(5),
});

const PARTS: ProtoFile = {
  name: "p",
  package: "ps",
  messages: { Part: PART },
  services: {},
  fieldName: (name) => name,
};
const THINGS: ProtoFile = {
  name: "t",
  package: "ts",
  imports: [PARTS],
  messages: { Thing: THING },
  enumerations: { "Thing.Color": COLOR },
  oneofs: { Thing: ["kind", ["part", "size"]] },
  services: { Things: { Get: { request: PART, response: THING, serverStreams: true } } },
  fieldName: (name) => name.toUpperCase(),
};

/** Bytes from numbers and texts. */
const bytesOf = (...parts: readonly (string | number)[]) =>
  Uint8Array.from(parts.flatMap((part) => typeof part === "number" ? [part] : [...new TextEncoder().encode(part)]));

Deno.test("a file with a message has the descriptor that protoc makes of it", () => {
  // protoc: syntax = "proto3"; package ps; message Part { string name = 1; }
  const field = bytesOf(0x0a, 4, "name", 0x18, 1, 0x20, 1, 0x28, 9);
  const part = bytesOf(0x0a, 4, "Part", 0x12, field.length, ...field);
  const expected = bytesOf(0x0a, 1, "p", 0x12, 2, "ps", 0x22, part.length, ...part, 0x62, 6, "proto3");
  assert.deepEqual(fileDescriptor(PARTS), expected);
});

Deno.test("types have full names, of the own file or an imported one, and maps are messages of their own", () => {
  const text = new TextDecoder().decode(fileDescriptor(THINGS));
  for (const name of [".ps.Part", ".ts.Thing", ".ts.Thing.Color", ".ts.Thing.LABELSEntry", "ITSCOLOR", "kind"]) {
    assert.ok(text.includes(name), name);
  }
});

Deno.test("a file's symbols are its types, services and methods", () => {
  assert.deepEqual(symbolsOf(THINGS), ["ts.Thing", "ts.Thing.Color", "ts.Things", "ts.Things.Get"]);
});
