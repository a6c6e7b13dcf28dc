import assert from "node:assert/strict";
import { OP_ITEM } from "../../../../kpng/messages/messages.ts";
import type { ServiceState } from "../../../../kpng/store/mod.ts";
import { contentHash, difference, type View, wireItem } from "../../../../kpng/views/operations.ts";

Deno.test("changed content is sent even if the path, with a hash of the content, is the same", () => {
  const state = (namespace: string): ServiceState => ({ namespace, name: "web", service: undefined, slices: [] });
  // As after a collision: the namespace is the content.
  const view: View = {
    service: () => undefined,
    endpoints: ({ namespace }) => [wireItem(2, "default/web/hash", new TextEncoder().encode(namespace))],
    scoped: () => undefined,
  };
  const sent = (before: string, after: string) =>
    [...difference({ services: [{ before: state(before), after: state(after) }], scoped: [] }, view)]
      .map((bytes) => new TextDecoder().decode(OP_ITEM.decode(bytes).set?.bytes));
  assert.deepEqual(sent("one", "two"), ["two"]);
  assert.deepEqual(sent("one", "one"), []);
});

Deno.test("a content hash is a prefix of SHA-256", () => {
  const { value, text } = contentHash(new TextEncoder().encode("abc"));
  assert.equal(value.toString(16), "ba7816bf8f01cfea");
  assert.equal(text, "ungWv48Bz-pBQUDe");
});
