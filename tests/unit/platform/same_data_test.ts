import assert from "node:assert/strict";
import { sameData } from "../../../platform/data.ts";

const SAME: readonly (readonly [unknown, unknown])[] = [
  [1, 1],
  [[], []],
  [{ a: [1, { b: "x" }] }, { a: [1, { b: "x" }] }],
  [{ a: 1, b: 2 }, { b: 2, a: 1 }],
  [{ a: undefined }, {}],
  [{}, { a: undefined }],
];
const DIFFERENT: readonly (readonly [unknown, unknown])[] = [
  [1, "1"],
  [undefined, null],
  [null, {}],
  [[], {}],
  [{}, []],
  [["a"], ["a", "b"]],
  [["a", "b"], ["b", "a"]],
  [{ a: 1 }, {}],
  [{}, { a: 1 }],
  [{ a: [1, { b: "x" }] }, { a: [1, { b: "y" }] }],
];

for (const [a, b] of SAME) {
  Deno.test(`${Deno.inspect(a)} equals ${Deno.inspect(b)}`, () => assert.ok(sameData(a, b)));
}
for (const [a, b] of DIFFERENT) {
  Deno.test(`${Deno.inspect(a)} differs from ${Deno.inspect(b)}`, () => assert.ok(!sameData(a, b)));
}
