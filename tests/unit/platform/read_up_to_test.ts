import assert from "node:assert/strict";
import { readUpTo } from "../../../platform/mod.ts";

/** A source that gives three bytes at a time. */
function inThrees(text: string) {
  let rest = new TextEncoder().encode(text);
  return {
    read(into: Uint8Array): Promise<number | null> {
      const piece = rest.subarray(0, Math.min(3, into.length));
      into.set(piece);
      rest = rest.subarray(piece.length);
      return Promise.resolve(piece.length === 0 ? null : piece.length);
    },
  };
}

Deno.test("a source is read in pieces, to its end or to the limit", async () => {
  const read = async (most: number) => new TextDecoder().decode(await readUpTo(inThrees("abcdefgh"), most));
  assert.deepEqual([await read(2), await read(7), await read(8), await read(100)], [
    "ab",
    "abcdefg",
    "abcdefgh",
    "abcdefgh",
  ]);
});
