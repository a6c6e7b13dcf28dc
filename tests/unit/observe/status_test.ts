import assert from "node:assert/strict";
import type { SyncReport } from "../../../core/model/mod.ts";
import { createStatusRecorder } from "../../../observe/status.ts";
import { createFakeClock } from "../../fakes/clock.ts";

const report = (changes: Partial<SyncReport> = {}): SyncReport => ({
  family: "IPv4",
  revision: 1,
  ok: true,
  full: false,
  endedAtMs: 10_000,
  durationMs: 5,
  problems: [],
  figures: { chains_written: 2 },
  ...changes,
});

const ofIPv4 = (recorder: ReturnType<typeof createStatusRecorder>) =>
  recorder.families().find(({ family }) => family === "IPv4")!;

Deno.test("the last syncs are told, the newest first, and no more than fit on a screen", () => {
  const recorder = createStatusRecorder(createFakeClock());
  for (let revision = 1; revision <= 100; revision++) recorder.report(report({ revision }), []);
  const { syncs } = ofIPv4(recorder);
  assert.equal(syncs.length, 32);
  assert.deepEqual([syncs[0]!.revision, syncs[31]!.revision], [100, 69]);
  assert.deepEqual(syncs[0]!.figures, { chains_written: 2 });
  assert.deepEqual(recorder.families().map(({ family }) => family), ["IPv4", "IPv6"]);
});

Deno.test("the latency is that of the last changes", () => {
  const recorder = createStatusRecorder(createFakeClock());
  assert.equal(ofIPv4(recorder).latency, undefined);
  recorder.report(report(), Array.from({ length: 100 }, (_, i) => 10_000 - (i + 1) * 10));
  assert.deepEqual(ofIPv4(recorder).latency, { changes: 100, p50Ms: 500, p90Ms: 900, p99Ms: 990, longestMs: 1000 });
  recorder.report(report(), Array.from({ length: 1000 }, () => 9_993));
  assert.deepEqual(ofIPv4(recorder).latency, { changes: 512, p50Ms: 7, p90Ms: 7, p99Ms: 7, longestMs: 7 });
});

Deno.test("problems are told once each with how often they came, those of syncs and workers among them", () => {
  const clock = createFakeClock();
  const recorder = createStatusRecorder(clock);
  const first = clock.now();
  recorder.problem("Service default/a", "odd");
  clock.advance(1000);
  recorder.problem("Service default/b", "odd");
  recorder.problem("Service default/a", "odd");
  recorder.report(
    report({ problems: [{ code: "rules-refused", servicePort: "default/c:http", message: "refused" }] }),
    [],
  );
  recorder.workerHealth("IPv6", { state: "unfit", reason: "no nft", unsupported: true });
  assert.deepEqual(recorder.problems().map(({ where, message, count }) => [where, message, count]), [
    ["IPv6", "no nft", 1],
    ["default/c:http", "refused", 1],
    ["Service default/a", "odd", 2],
    ["Service default/b", "odd", 1],
  ]);
  const again = recorder.problems()[2]!;
  assert.deepEqual([again.firstAtMs, again.lastAtMs], [first, first + 1000]);
  for (let i = 0; i < 1000; i++) recorder.problem("somewhere", String(i));
  assert.equal(recorder.problems().length, 64);
});
