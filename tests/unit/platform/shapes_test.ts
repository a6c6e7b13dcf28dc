import assert from "node:assert/strict";
import * as shape from "../../../platform/shapes/mod.ts";

const POINT = shape.record({
  x: shape.integer(0, 9),
  name: shape.optional(shape.text(/^[a-z]+$/)),
  tags: shape.list(shape.oneOf("near", "far")),
  owner: shape.orUndefined(shape.record({ id: shape.COUNT })),
});
const VALID: shape.TypeOf<typeof POINT> = { x: 1, tags: ["near"], owner: undefined };

Deno.test("a record takes its fields, absent and undefined ones included", () => {
  for (const value of [VALID, { ...VALID, name: "a" }, { x: 1, tags: [] }, { ...VALID, owner: { id: 0 } }]) {
    assert.equal(POINT.wrongField(value), undefined);
  }
});

Deno.test("a record names the first field that is invalid or unknown", () => {
  const wrong: readonly [unknown, string][] = [
    [{ ...VALID, x: 10 }, '"x"'],
    [{ ...VALID, x: 0.5 }, '"x"'],
    [{ tags: [] }, '"x"'],
    [{ ...VALID, name: "A" }, '"name"'],
    [{ ...VALID, name: null }, '"name"'],
    [{ ...VALID, tags: ["near", "there"] }, '"tags"'],
    [{ ...VALID, tags: { length: 0 } }, '"tags"'],
    [{ ...VALID, owner: { id: 0, more: 1 } }, '"owner"'],
    [{ ...VALID, constructor: undefined }, '"constructor" (unknown)'],
    [null, "(not an object)"],
    ["x", "(not an object)"],
  ];
  for (const [value, field] of wrong) {
    assert.equal(POINT.wrongField(value), field);
    assert.equal(POINT.is(value), false);
  }
});

Deno.test("a value of one of several shapes has no fields of another", () => {
  const either = shape.anyOf(shape.record({ a: shape.TEXT }), shape.record({ b: shape.TEXT }));
  assert.deepEqual([{ a: "" }, { b: "" }, { a: "", b: "" }, {}].map(either.is), [true, true, false, false]);
});

Deno.test("a map has texts as keys and values of one shape", () => {
  const counts = shape.mapOf(shape.COUNT);
  assert.deepEqual([new Map([["a", 1]]), new Map([["a", -1]]), new Map([[1, 1]]), {}].map(counts.is), [
    ...[true, false, false, false],
  ]);
});

Deno.test("sharing replaces equal texts at any depth, and nothing else", () => {
  const shared: string[] = [];
  const word: shape.Shape<string> = {
    is: shape.TEXT.is,
    share(text) {
      shared.push(text);
      return text;
    },
  };
  const tree = shape.record({
    word,
    own: shape.TEXT,
    list: shape.list(shape.record({ word: shape.optional(word) })),
  });
  const value = { word: "a", own: "b", list: [{ word: "c" }, {}] };
  assert.equal(tree.share!(value), value);
  assert.deepEqual(shared, ["a", "c"]);
  assert.equal("word" in value.list[1]!, false, "an absent field stays absent");
  assert.equal(shape.list(shape.COUNT).share, undefined);
});
