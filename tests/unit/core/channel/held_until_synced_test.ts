import assert from "node:assert/strict";
import { createHeldUntilSynced } from "../../../../core/channel/held_until_synced.ts";

const NONE: ReadonlySet<string> = new Set();

Deno.test("a value is held until the revision that carries it is in effect, and released once", () => {
  const held = createHeldUntilSynced<string, number>();
  held.hold("a", 1);
  assert.deepEqual([...held.inEffect(1, NONE)], [], "it was not sent");
  held.sent(2);
  held.hold("b", 1);
  assert.deepEqual([...held.inEffect(1, NONE)], [], "an earlier revision");
  assert.deepEqual([...held.inEffect(2, NONE)], [["a", 1]]);
  assert.deepEqual([...held.inEffect(3, NONE)], []);
});

Deno.test("the latest value of a key counts, and values of a failed sync wait for the next revision", () => {
  const held = createHeldUntilSynced<string, number>();
  held.hold("a", 1);
  held.sent(1);
  held.hold("a", 2);
  held.hold("b", 2);
  held.sent(2);
  assert.deepEqual([...held.inEffect(1, NONE)], []);
  assert.deepEqual([...held.inEffect(2, NONE)], [["a", 2], ["b", 2]]);
});

Deno.test("a key whose rules the kernel refused is held until it accepts them", () => {
  const held = createHeldUntilSynced<string, number>();
  held.hold("a", 1);
  held.hold("b", 1);
  held.sent(1);
  assert.deepEqual([...held.inEffect(1, new Set(["a"]))], [["b", 1]]);
  assert.deepEqual([...held.inEffect(1, NONE)], [["a", 1]]);
});

Deno.test("a dropped value is not released", () => {
  const held = createHeldUntilSynced<string, number>();
  held.hold("a", 1);
  held.sent(1);
  held.hold("b", 1);
  held.drop("a");
  held.drop("b");
  held.sent(2);
  assert.deepEqual([...held.inEffect(2, NONE)], []);
});
