import assert from "node:assert/strict";
import { message, nested, text } from "../../../../kpng/codec/mod.ts";

const NAMED = message({ name: text(1), inner: nested(2, message({ name: text(1) })) });

/** Field 1 with the text "a". */
const NAME = [0x0a, 1, 0x61];
const key = (field: number, wireType: number) => field * 8 + wireType;
const START = 3, END = 4;

const decode = (...bytes: readonly number[]) => NAMED.decode(Uint8Array.from(bytes));
/** Groups of field 5 in each other. */
const groups = (depth: number) => [
  ...Array.from({ length: depth }, () => key(5, START)),
  ...Array.from({ length: depth }, () => key(5, END)),
];

Deno.test("unknown groups are skipped with all they contain", () => {
  const values = [
    key(1, 0),
    200,
    1,
    key(1, 1),
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    key(1, 2),
    2,
    key(6, END),
    0,
    key(1, 5),
    1,
    2,
    3,
    4,
  ];
  const groups = {
    "an empty one": [key(5, START), key(5, END)],
    "one of every kind of value": [key(5, START), ...values, key(5, END)],
    "groups in it": [key(5, START), key(6, START), ...NAME, key(6, END), key(5, START), key(5, END), key(5, END)],
  };
  for (const [name, group] of Object.entries(groups)) {
    assert.deepEqual(decode(...group, ...NAME), { name: "a" }, name);
    assert.deepEqual(decode(0x12, group.length + 3, ...group, ...NAME), { inner: { name: "a" } }, `${name}, nested`);
  }
});

Deno.test("groups may nest a hundred deep, and no deeper", () => {
  assert.deepEqual(decode(...groups(100), ...NAME), { name: "a" });
  assert.throws(() => decode(...groups(101), ...NAME), { name: "WireError", message: "groups nest deeper than 100" });
});

const BROKEN = {
  "group 5 ends without a start": [key(5, END)],
  "group 6 ends in another group": [key(5, START), key(6, END)],
  "a message ends in the middle of a field": [key(5, START), ...NAME],
  "a field has the unknown wire type 6": [key(5, START), key(1, 6), key(5, END)],
};

for (const [problem, bytes] of Object.entries(BROKEN)) {
  Deno.test(`a message is invalid in which ${problem}`, () => {
    assert.throws(() => decode(...bytes), { name: "WireError", message: problem });
  });
}
