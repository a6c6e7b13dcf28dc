/** The conversion of collected changes into differences by place. */
import assert from "node:assert/strict";
import { differencesOf } from "../../../../backends/dry_run/mod.ts";
import type { PlaceChange } from "../../../../backends/tools/runner.ts";

function found(...changes: readonly PlaceChange[]) {
  return differencesOf(changes).map(({ place, what, lines }) => [
    place,
    what,
    ...lines.map(({ sign, text }) => sign + text),
  ]);
}

const chain = (place: string, held?: readonly string[], wanted?: readonly string[]): PlaceChange => ({
  kind: "chain",
  place,
  held,
  wanted,
});

Deno.test("a chain shows the lines that only one side has, in order", () => {
  assert.deepEqual(found(chain("nat A", ["a", "b", "c"], ["a", "x", "c", "d"])), [[
    "nat A",
    "differs",
    "-b",
    "+x",
    "+d",
  ]]);
  assert.deepEqual(found(chain("nat A", undefined, ["a"])), [["nat A", "missing", "+a"]]);
  assert.deepEqual(found(chain("nat A", ["a"], undefined)), [["nat A", "unwanted", "-a"]]);
});

Deno.test("rewriting a chain unchanged is no difference; deleting an empty one is", () => {
  assert.deepEqual(found(chain("nat A", ["a"], ["a"]), chain("nat B", [], undefined)), [["nat B", "unwanted"]]);
});

Deno.test("emptying a chain and then deleting it is one difference from the kernel's rules", () => {
  assert.deepEqual(found(chain("nat A", ["a"], []), chain("nat A", undefined, undefined)), [[
    "nat A",
    "unwanted",
    "-a",
  ]]);
});

Deno.test("all lines of two chains that differ in thousands of lines are shown", () => {
  const held = Array.from({ length: 6000 }, (_, i) => `held ${i}`);
  const wanted = Array.from({ length: 6000 }, (_, i) => `wanted ${i}`);
  const [difference] = found(chain("nat A", held, wanted));
  assert.deepEqual(difference!.slice(2), [...held.map((line) => `-${line}`), ...wanted.map((line) => `+${line}`)]);
});

Deno.test("members of a place are collected from all changes, and places are sorted within their kind", () => {
  const members = (place: string, removed: readonly string[], added: readonly string[]): PlaceChange => ({
    kind: "members",
    place,
    removed,
    added,
  });
  assert.deepEqual(
    found(
      members("set b", [], ["1"]),
      members("set a", [], ["2"]),
      { kind: "members", place: "set b", removed: ["3"], added: [], what: "missing" },
      chain("nat Z", undefined, []),
      { kind: "built-in chain", place: "nat OUTPUT", removed: [], added: ["-j A"] },
    ),
    [
      ["nat OUTPUT", "differs", "+-j A"],
      ["nat Z", "missing"],
      ["set a", "differs", "+2"],
      ["set b", "missing", "-3", "+1"],
    ],
  );
});
