import assert from "node:assert/strict";
import fc from "fast-check";
import { createItemScanner } from "../../../../sources/kubernetes/list.ts";
import { anyText } from "../../../property/any_text.ts";
import { runs } from "../../../property/runs.ts";

/** Scans `text` in chunks of the given sizes, repeatedly. */
function scan(text: string, sizes: readonly number[]) {
  const items: unknown[] = [];
  const scanner = createItemScanner((item) => items.push(item));
  const bytes = new TextEncoder().encode(text);
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!;
    scanner.push(bytes.subarray(at, at + size));
    at += size;
  }
  return { items, envelope: scanner.end() };
}

Deno.test("items and remainder match JSON.parse regardless of chunk boundaries", () => {
  const member = fc.tuple(anyText().filter((key) => key !== "items"), fc.jsonValue());
  const list = fc.record({
    before: fc.array(member),
    items: fc.array(fc.jsonValue()),
    after: fc.array(member),
    sizes: fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
    indent: fc.constantFrom("", " ", "\t", "\r\n "),
  });
  fc.assert(
    fc.property(list, ({ before, items, after, sizes, indent }) => {
      const members = [
        ...before.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value, null, indent)}`),
        `"items":${JSON.stringify(items, null, indent)}`,
        ...after.map(([key, value]) => `${JSON.stringify(key)}${indent}:${indent}${JSON.stringify(value)}`),
      ];
      const text = `${indent}{${members.join(`,${indent}`)}}\n`;
      const whole = JSON.parse(text);
      const scanned = scan(text, sizes);
      assert.deepEqual(scanned.items, whole.items);
      delete whole.items;
      assert.deepEqual({ ...scanned.envelope }, { ...whole });
    }),
    runs(100),
  );
});

Deno.test("a response that is cut off anywhere is detected", () => {
  const text = '{"metadata":{"resourceVersion":"1"},"items":[{"a":"\\"]}"},{"b":[1,2]}],"kind":"List"}';
  for (let length = 0; length < text.length; length++) {
    assert.throws(() => scan(text.slice(0, length), [7]), SyntaxError, `after ${length} characters`);
  }
  assert.deepEqual(scan(text, [7]).items, [{ a: '"]}' }, { b: [1, 2] }]);
});

Deno.test("input that is not a JSON object is rejected", () => {
  for (const text of ["<html></html>", "[]", "{} {}", '{"items":[{"a":}]}', '{"items":[1 2]}', '{"a" 1}', "{1:2}"]) {
    assert.throws(() => scan(text, [100]), SyntaxError, text);
  }
});

Deno.test("null items are an empty list", () => {
  assert.deepEqual(scan('{"items":null,"metadata":{"resourceVersion":"7"}}', [9]), {
    items: [],
    envelope: { items: null, metadata: { resourceVersion: "7" } },
  });
});

const PIECE = new Uint8Array(2 ** 20);
const pieceOf = (character: string) => new Uint8Array(PIECE).fill(character.charCodeAt(0));

Deno.test("an item, white space or other members without an end are refused after 16 MiB, and memory stays bounded", () => {
  const cases = {
    "a string in an item": ['{"items":[{"a":"', pieceOf("x")],
    "blanks before an item": ['{"items":[{},', pieceOf(" ")],
    "blanks before the list": ["", pieceOf(" ")],
    "another member": ['{"a":"', pieceOf("x")],
    "many other members": ["{", new TextEncoder().encode(`"a":"${"x".repeat(56)}",\n`.repeat(2 ** 14))],
  } satisfies Record<string, [string, Uint8Array]>;
  for (const [name, [start, piece]] of Object.entries(cases)) {
    const scanner = createItemScanner(() => {});
    scanner.push(new TextEncoder().encode(start));
    let pushed = 0;
    const push = () => {
      for (; pushed < 24; pushed++) scanner.push(piece);
    };
    assert.throws(push, (error: Error) => error instanceof SyntaxError && /more than 16 MiB/.test(error.message), name);
    assert.ok(pushed >= 15 && pushed <= 23, `${name}: ${pushed} MiB`);
  }
});

Deno.test("a list may be longer than the limit of an item", () => {
  const item = JSON.stringify({ a: "x".repeat(2 ** 20) });
  let items = 0;
  const scanner = createItemScanner(() => items++);
  scanner.push(new TextEncoder().encode('{"items":['));
  for (let i = 0; i < 17; i++) scanner.push(new TextEncoder().encode(`${i === 0 ? "" : ","}${item}`));
  scanner.push(new TextEncoder().encode("]}"));
  scanner.end();
  assert.equal(items, 17);
});
