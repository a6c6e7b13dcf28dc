import assert from "node:assert/strict";
import fc from "fast-check";
import { boundedText, createLineSplitter } from "../../../../backends/tools/process_runner.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("lines are the same regardless of chunk boundaries", () => {
  fc.assert(fc.property(fc.array(fc.stringMatching(/^[ab\n]{0,6}$/)), (pieces) => {
    const lines: string[] = [];
    const splitter = createLineSplitter((line) => lines.push(line));
    for (const piece of pieces) splitter.push(piece);
    splitter.end();
    const expected = pieces.join("").split("\n");
    if (expected.at(-1) === "") expected.pop();
    assert.deepEqual(lines, expected);
  }));
});

Deno.test("text within its limit stays whole", () => {
  fc.assert(fc.property(fc.array(fc.stringMatching(/^[a-z]{0,9}$/), { maxLength: 11 }), (pieces) => {
    const text = boundedText(100);
    for (const piece of pieces) text.push(bytes(piece));
    assert.equal(text.toString(), pieces.join(""));
  }));
});

Deno.test("longer text keeps both ends, and the gap is marked", () => {
  const text = boundedText(8);
  for (let i = 0; i < 10; i++) text.push(bytes("0123456789"));
  assert.equal(text.toString(), "0123\n… 92 bytes left out …\n6789");
});
