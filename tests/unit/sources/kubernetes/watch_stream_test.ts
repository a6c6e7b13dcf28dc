import assert from "node:assert/strict";
import fc from "fast-check";
import { ApiError } from "../../../../core/objects/mod.ts";
import { resourcesOf } from "../../../../sources/kubernetes/resource.ts";
import {
  createWatchDecoder,
  createWatchTimeout,
  type WatchEvent,
  watchResource,
} from "../../../../sources/kubernetes/watch.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
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

/** Watches Services whose server sends these pieces and ends; the events in short. */
async function watched(...pieces: readonly string[]): Promise<{ readonly events: string[]; readonly error: unknown }> {
  const events: string[] = [];
  const nameOf = (raw: unknown) => (raw as { readonly metadata: { readonly name: string } }).metadata.name;
  const [resource] = resourcesOf(["Service"], "n1");
  const api = {
    server: "https://api",
    send(_: unknown, onChunk: (chunk: Uint8Array) => void) {
      for (const piece of pieces) onChunk(new TextEncoder().encode(piece));
      return Promise.resolve();
    },
    close() {},
  };
  const timeout = createWatchTimeout({ clock: createFakeClock(), random: () => 0.5, fixedMs: undefined });
  const error = await watchResource({ resource: resource!, api, from: "5", timeoutSeconds: 300, timeout }, {
    opened() {},
    set: (raw) => void events.push(`set ${nameOf(raw)}`),
    delete: (raw) => void events.push(`delete ${nameOf(raw)}`),
    reached: (version) => void events.push(`reached ${version}`),
  }, new AbortController().signal).catch((error) => error);
  return { events, error };
}

const eventOf = (type: string, name: string, resourceVersion?: string) =>
  `${JSON.stringify({ type, object: { metadata: { name, resourceVersion } } })}\n`;

Deno.test("a watch that ends in the middle of an event is resumed after the last complete one", async () => {
  const { events, error } = await watched(eventOf("ADDED", "web", "6"), eventOf("ADDED", "api", "7").slice(0, 20));
  assert.deepEqual(events, ["set web", "reached 6"]);
  assert(error instanceof ApiError && error.kind === "unreachable");
  assert.match(error.message, /broke off in the middle of an event/);
});

Deno.test("an event without a version does not move the position from which the watch is resumed", async () => {
  const { events, error } = await watched(eventOf("ADDED", "web", "6"), eventOf("DELETED", "web"));
  assert.deepEqual([events, error], [["set web", "reached 6", "delete web"], undefined]);
});
