import assert from "node:assert/strict";
import fc from "fast-check";
import { createWatchDecoder, type WatchEvent } from "../../../../sources/kubernetes/watch.ts";
import { anyText } from "../../../property/any_text.ts";
import { runs } from "../../../property/runs.ts";

Deno.test("events are decoded regardless of chunk boundaries", () => {
  const types = fc.constantFrom("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR");
  const events = fc.array(
    fc.record({ type: types, object: fc.dictionary(anyText(), fc.jsonValue()) }),
  );
  fc.assert(
    fc.property(events, fc.integer({ min: 1, max: 50 }), (sent, size) => {
      const got: WatchEvent[] = [];
      const decoder = createWatchDecoder((event) => got.push(event));
      const bytes = new TextEncoder().encode(sent.map((event) => JSON.stringify(event) + "\n").join(""));
      for (let at = 0; at < bytes.length; at += size) decoder.push(bytes.subarray(at, at + size));
      assert.equal(decoder.unfinishedBytes(), 0);
      assert.deepEqual(JSON.parse(JSON.stringify(got)), JSON.parse(JSON.stringify(sent)));
    }),
    runs(100),
  );
});

Deno.test("an incomplete line is buffered and counted", () => {
  const got: WatchEvent[] = [];
  const decoder = createWatchDecoder((event) => got.push(event));
  decoder.push(new TextEncoder().encode('{"type":"BOOKMARK","object":{}}\n{"type":'));
  assert.equal(got.length, 1);
  assert.equal(decoder.unfinishedBytes(), 8);
});

Deno.test("a line that is not an event is refused after the events before it", () => {
  for (const line of ["null", "{}", '{"type":"MOVED","object":{}}', '{"type":"ADDED"}', "<html>"]) {
    const got: WatchEvent[] = [];
    const decoder = createWatchDecoder((event) => got.push(event));
    assert.throws(
      () => decoder.push(new TextEncoder().encode(`{"type":"BOOKMARK","object":{}}\n${line}\n`)),
      SyntaxError,
    );
    assert.equal(got.length, 1);
  }
});

Deno.test("an event, or blank lines, without an end are refused after 16 MiB; a watch may be longer", () => {
  const whole = new TextEncoder().encode(`{"type":"ADDED","object":{"a":"${"x".repeat(2 ** 20)}"}}\n`);
  for (const piece of ["x", "\n"]) {
    const decoder = createWatchDecoder(() => {});
    for (let i = 0; i < 17; i++) decoder.push(whole);
    const chunk = new Uint8Array(2 ** 20).fill(piece.charCodeAt(0));
    const push = () => {
      for (let i = 0; i < 17; i++) decoder.push(chunk);
    };
    assert.throws(push, (error: Error) => error instanceof SyntaxError && /more than 16 MiB/.test(error.message));
  }
});
