import assert from "node:assert/strict";
import { eventText, sizeOfSync, syncText } from "../../../../answers/status/texts.ts";
import type { SyncSummary } from "../../../../observe/mod.ts";

const sync = (counts: SyncSummary["counts"]) => ({ counts, durationMs: 12 }) as SyncSummary;

Deno.test("the size of a sync has what it wrote and deleted, of each kind that is not 0, and no other counts", () => {
  const counts = { chains_written: 1, chains_deleted: 0, unknown: 9 };
  assert.deepEqual(sizeOfSync(sync(counts)), { total: 1, parts: ["1 chains written"] });
  const both = { chains_deleted: 2, chains_written: 3 };
  assert.deepEqual(sizeOfSync(sync(both)), { total: 5, parts: ["3 chains written", "2 chains deleted"] });
  assert.deepEqual(sizeOfSync(sync({})), { total: 0, parts: [] });
});

Deno.test("a sync says how long it took and how much it changed", () => {
  assert.equal(syncText(sync({ chains_written: 0 })), "12 ms, nothing to write");
  assert.equal(syncText(sync({ chains_written: 1 })), "12 ms, 1 change");
  assert.equal(syncText(sync({ chains_written: 1, chains_deleted: 1 })), "12 ms, 2 changes");
});

Deno.test("an event says what happened, and then its detail or its effect in the kernel", () => {
  const event = { text: "2 → 0 endpoints", detail: undefined, effect: undefined, tookMs: undefined };
  assert.equal(eventText(event), "2 → 0 endpoints");
  assert.equal(eventText({ ...event, detail: "of 3" }), "2 → 0 endpoints: of 3");
  assert.equal(eventText({ ...event, effect: "in effect", tookMs: 12 }), "2 → 0 endpoints, in effect after 12 ms");
  assert.equal(eventText({ ...event, effect: "in effect" }), "2 → 0 endpoints, in effect after 0 ms");
  assert.equal(eventText({ ...event, effect: "waiting", tookMs: 12 }), "2 → 0 endpoints, not in effect yet");
  assert.equal(eventText({ ...event, effect: "refused", tookMs: 12 }), "2 → 0 endpoints, refused by the kernel");
  assert.equal(eventText({ ...event, effect: "overtaken" }), "2 → 0 endpoints, overtaken by a later change");
});
