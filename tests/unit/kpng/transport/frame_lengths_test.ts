import assert from "node:assert/strict";
import { createClientFrameCheck, FRAME, windowIncrementOf } from "../../../../kpng/transport/http2.ts";

const END_HEADERS = 4, PADDED = 8, PRIORITY = 32;
const LONGEST = 16_384, ANY = Array.from({ length: 17 }, (_, length) => length).concat(256, 258, 264, LONGEST);

/** A type of frame, its flags, its stream, and the lengths of its payload that are valid (RFC 9113 section 6). */
const FRAMES: readonly (readonly [keyof typeof FRAME, number, number, (length: number) => boolean])[] = [
  ["data", 0, 1, () => true],
  ["data", PADDED, 1, (length) => length >= 1],
  ["headers", END_HEADERS, 3, () => true],
  ["headers", END_HEADERS | PADDED, 3, (length) => length >= 1],
  ["headers", END_HEADERS | PRIORITY, 3, (length) => length >= 5],
  ["headers", END_HEADERS | PADDED | PRIORITY, 3, (length) => length >= 6],
  ["priority", 0, 1, (length) => length === 5],
  ["reset", 0, 1, (length) => length === 4],
  ["settings", 0, 0, (length) => length % 6 === 0 && length <= 256],
  ["settings", 1, 0, (length) => length === 0],
  ["ping", 0, 0, (length) => length === 8],
  ["goaway", 0, 0, (length) => length >= 8],
  ["windowUpdate", 0, 0, (length) => length === 4],
  ["windowUpdate", 0, 1, (length) => length === 4],
];

for (const [type, flags, stream, isValid] of FRAMES) {
  Deno.test(`the lengths of ${type} frames with flags ${flags} in stream ${stream} are those of the protocol`, () => {
    const accepts = (length: number) => {
      const check = createClientFrameCheck();
      assert.equal(check({ length: 10, type: FRAME.headers, flags: END_HEADERS, stream: 1 }), undefined);
      return check({ length, type: FRAME[type], flags, stream }) === undefined;
    };
    assert.deepEqual(ANY.filter(accepts), ANY.filter(isValid));
    assert.equal(accepts(LONGEST + 1), false);
  });
}

Deno.test("a window grows by 31 bits of WINDOW_UPDATE, and by nothing if it is too short", () => {
  assert.equal(windowIncrementOf(Uint8Array.of(0xff, 2, 3, 4)), 0x7f020304);
  assert.equal(windowIncrementOf(Uint8Array.of(1, 2, 3)), 0);
});
