import assert from "node:assert/strict";
import fc from "fast-check";
import { readErrors, readOutput } from "../../../../backends/tools/process_runner.ts";
import { runs } from "../../../property/runs.ts";

/** A reader that reads each piece by itself: those that a stream already has would be read as one. */
function readerOf(pieces: readonly (string | Uint8Array)[]): ReadableStreamBYOBReader {
  // A byte stream takes no empty piece.
  const waiting = pieces.filter((text) => text !== "").values(), encoder = new TextEncoder();
  const stream = new ReadableStream({
    type: "bytes",
    pull(controller) {
      const { value, done } = waiting.next();
      if (!done) return controller.enqueue(typeof value === "string" ? encoder.encode(value) : value);
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
  return stream.getReader({ mode: "byob" });
}

Deno.test("lines are the same regardless of chunk boundaries", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.stringMatching(/^[ab\n]{0,6}$/)), async (pieces) => {
      const lines: string[] = [];
      assert.equal(await readOutput(readerOf(pieces), { onLine: (line) => lines.push(line) }), "");
      const expected = pieces.join("").split("\n");
      if (expected.at(-1) === "") expected.pop();
      assert.deepEqual(lines, expected);
      assert.equal(await readOutput(readerOf(pieces)), pieces.join(""));
    }),
    runs(100),
  );
});

Deno.test("output of any length is whole", async () => {
  const text = Array.from({ length: 30_000 }, (_, i) => `line ${i}\n`).join("");
  assert.equal(await readOutput(readerOf([text])), text);
});

Deno.test("a character may be split between pieces, and one that is cut off at the end is marked", async () => {
  const pieces = () => [[0x61, 0xc3], [0xa9, 0x62, 0xe2]].map((bytes) => Uint8Array.from(bytes));
  assert.equal(await readOutput(readerOf(pieces())), "aéb\ufffd");
  const lines: string[] = [];
  await readOutput(readerOf(pieces()), { onLine: (line) => lines.push(line) });
  assert.deepEqual(lines, ["aéb\ufffd"]);
});

Deno.test("output, or a line, above its limit is an error", async () => {
  const pieces = ["ab\n", "cd\n", "ef\n"];
  assert.equal(await readOutput(readerOf(pieces), { mostOutput: 9 }), pieces.join(""));
  await assert.rejects(readOutput(readerOf(pieces), { mostOutput: 8 }), /printed more than 8 characters/);
  const onLine = () => {};
  assert.equal(await readOutput(readerOf(pieces), { onLine, mostOutput: 2 }), "");
  await assert.rejects(readOutput(readerOf(["ab\ncde"]), { onLine, mostOutput: 2 }), /printed a line of more than 2/);
});

Deno.test("text within its limit stays whole", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.stringMatching(/^[a-z]{0,9}$/), { maxLength: 11 }), async (pieces) => {
      assert.equal(await readErrors(readerOf(pieces), 100), pieces.join(""));
    }),
    runs(100),
  );
});

Deno.test("longer text keeps both ends, and the gap is marked", async () => {
  const pieces = Array.from({ length: 10 }, () => "0123456789");
  assert.equal(await readErrors(readerOf(pieces), 8), "0123\n… 92 bytes left out …\n6789");
});
