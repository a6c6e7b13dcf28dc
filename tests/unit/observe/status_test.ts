import assert from "node:assert/strict";
import type { SyncReport } from "../../../core/model/mod.ts";
import { createStatusRecorder } from "../../../observe/status.ts";

const report = (changes: Partial<SyncReport> = {}): SyncReport => ({
  family: "IPv4",
  revision: 1,
  ok: true,
  full: false,
  endedAtMs: 10_000,
  durationMs: 5,
  problems: [],
  counts: { chains_written: 2 },
  ...changes,
});

const ofIPv4 = (recorder: ReturnType<typeof createStatusRecorder>) =>
  recorder.families().find(({ family }) => family === "IPv4")!;

Deno.test("recent syncs are listed newest first, limited to one screen", () => {
  const recorder = createStatusRecorder();
  for (let revision = 1; revision <= 100; revision++) recorder.report(report({ revision }), []);
  const { syncs } = ofIPv4(recorder);
  assert.equal(syncs.length, 32);
  assert.deepEqual([syncs[0]!.revision, syncs[31]!.revision], [100, 69]);
  assert.deepEqual(syncs[0]!.counts, { chains_written: 2 });
  assert.deepEqual(recorder.families().map(({ family }) => family), ["IPv4", "IPv6"]);
});

Deno.test("another run of the process has no syncs yet, and keeps the counts", () => {
  const recorder = createStatusRecorder();
  recorder.workerHealth("IPv4", { state: "ready" });
  recorder.report(report({ counts: { drift_repaired: 2 } }), [9_000]);
  recorder.startRun();
  const { worker, syncs, driftRepaired, latency, lastChangeMs } = ofIPv4(recorder);
  assert.deepEqual([worker, syncs], [{ state: "starting" }, []]);
  assert.deepEqual([driftRepaired, latency?.changes, lastChangeMs], [2, 1, 10_000]);
});

Deno.test("the latency is that of the most recent changes", () => {
  const recorder = createStatusRecorder();
  assert.equal(ofIPv4(recorder).latency, undefined);
  recorder.report(report(), Array.from({ length: 100 }, (_, i) => 10_000 - (i + 1) * 10));
  assert.deepEqual(ofIPv4(recorder).latency, { changes: 100, p50Ms: 500, p90Ms: 900, p99Ms: 990, longestMs: 1000 });
  recorder.report(report(), Array.from({ length: 1000 }, () => 9_993));
  assert.deepEqual(ofIPv4(recorder).latency, { changes: 512, p50Ms: 7, p90Ms: 7, p99Ms: 7, longestMs: 7 });
});

Deno.test("percentiles are the smallest latencies that cover their share, and a change from the future took no time", () => {
  const latenciesMs = [40, 10, 30, 20, -5_000];
  const recorder = createStatusRecorder(), early = createStatusRecorder();
  early.report(report(), [15_000]);
  assert.equal(ofIPv4(early).latency?.longestMs, 0);
  recorder.report(report(), latenciesMs.slice(0, 3).map((ms) => 10_000 - ms));
  assert.deepEqual(ofIPv4(recorder).latency, { changes: 3, p50Ms: 30, p90Ms: 40, p99Ms: 40, longestMs: 40 });
  recorder.report(report(), latenciesMs.slice(3).map((ms) => 10_000 - ms));
  assert.deepEqual(ofIPv4(recorder).latency, { changes: 5, p50Ms: 20, p90Ms: 40, p99Ms: 40, longestMs: 40 });
});
