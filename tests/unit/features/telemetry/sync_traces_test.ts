import { SpanStatusCode } from "@opentelemetry/api";
import { hrTimeToMilliseconds } from "@opentelemetry/core";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import assert from "node:assert/strict";
import { MODE_DESCRIPTIONS } from "../../../../backends/mod.ts";
import type { Family, SyncReport } from "../../../../core/model/mod.ts";
import { createLedgers } from "../../../../core/channel/mod.ts";
import { createSyncTraces } from "../../../../features/telemetry/sync_traces.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const mode = MODE_DESCRIPTIONS.find(({ name }) => name === "nftables")!;

function setUp() {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const clock = createFakeClock();
  const startMs = clock.now();
  const ledgers = createLedgers(clock);
  const traces = createSyncTraces(provider.getTracer("test"), { mode, ledgers, clock });
  const planned = (family: Family, changes: number, startedAtMs: number) =>
    traces.changed(
      family,
      { set: new Map(), deleted: Array(changes).fill("shop/web:http"), replaced: new Map() },
      startedAtMs,
    );
  const reported = (report: SyncReport, triggerTimesMs: readonly number[]) => {
    ledgers[report.family].reported(report);
    traces.reported(report, triggerTimesMs);
  };
  const report = (given: Partial<SyncReport>): SyncReport => ({
    ...{ family: "IPv4", revision: 1, ok: true, full: false, endedAtMs: clock.now(), durationMs: 10, problems: [] },
    ...{ counts: {}, ...given },
  });
  /** The finished spans as `name parent from-to`, in milliseconds since the start; forgets them. */
  const spans = () => {
    const all = exporter.getFinishedSpans();
    exporter.reset();
    const nameOf = (id: string | undefined) => all.find((one) => one.spanContext().spanId === id)?.name ?? "-";
    const ms = (time: readonly [number, number]) => Math.round(hrTimeToMilliseconds([...time]) - startMs);
    const texts = all.map(({ name, parentSpanContext, startTime, endTime }) =>
      `${name} ${nameOf(parentSpanContext?.spanId)} ${ms(startTime)}-${ms(endTime)}`
    );
    return { texts, sync: all.find(({ name }) => name === "sync"), all };
  };
  return { planned, ledgers, reported, clock, report, spans, startMs };
}

Deno.test("the trace of a sync goes from the first planned change to its effect", () => {
  const { planned, ledgers, reported, clock, report, spans, startMs } = setUp();
  clock.advance(5);
  planned("IPv4", 3, startMs);
  clock.advance(10);
  planned("IPv4", 2, startMs + 12);
  clock.advance(85);
  ledgers.IPv4.sent(4, 4);
  clock.advance(50);
  const counts = { conntrack_ms: 3, chains_written: 2 };
  reported(report({ revision: 4, durationMs: 40, counts }), [startMs - 300, startMs - 700]);
  const { texts, sync, all } = spans();
  assert.deepEqual(texts, [
    "plan sync 0-15",
    "channel sync 0-100",
    "apply sync 110-150",
    "sync - 0-150",
  ]);
  assert.equal(new Set(all.map((span) => span.spanContext().traceId)).size, 1);
  assert.deepEqual(sync?.attributes, {
    "sluice.family": "IPv4",
    "sluice.mode": "nftables",
    "sluice.revision": 4,
    "sluice.full": false,
    "sluice.result": "ok",
    "sluice.changes": 5,
    "sluice.programming_latency_ms": 850,
    "sluice.counts.conntrack_ms": 3,
    "sluice.counts.chains_written": 2,
  });
});

Deno.test("a sync without changes, such as a comparison, has no spans of planning", () => {
  const { reported, clock, report, spans } = setUp();
  clock.advance(20);
  reported(report({ full: true }), []);
  const { texts, sync } = spans();
  assert.deepEqual(texts, ["apply sync 10-20", "sync - 10-20"]);
  assert.equal(sync?.attributes["sluice.changes"], 0);
  assert.equal(sync?.status.code, SpanStatusCode.UNSET);
});

Deno.test("a failed sync has the error and the codes of its problems, one that left out a service is partial", () => {
  const { reported, report, spans } = setUp();
  const problem = { servicePort: undefined, message: "nft: no such table" };
  reported(report({ ok: false, problems: [{ ...problem, code: "sync-failed" }] }), []);
  const failed = spans().sync;
  assert.deepEqual(failed?.status, { code: SpanStatusCode.ERROR, message: "nft: no such table" });
  assert.equal(failed?.attributes["sluice.result"], "failed");
  assert.equal(failed?.attributes["error.type"], "sync-failed");
  const refused = { ...problem, code: "rules-refused" } as const;
  reported(report({ problems: [refused, refused] }), []);
  const partial = spans().sync;
  assert.equal(partial?.attributes["sluice.result"], "partial");
  assert.deepEqual(partial?.attributes["sluice.problems"], ["rules-refused"]);
  assert.equal(partial?.status.code, SpanStatusCode.UNSET);
});

Deno.test("changes belong to the sync of the revision that they were sent with, and to their family", () => {
  const { planned, ledgers, reported, report, spans } = setUp();
  planned("IPv4", 1, 0);
  reported(report({ revision: 1 }), []);
  ledgers.IPv4.sent(2, 2);
  reported(report({ revision: 1 }), []);
  reported(report({ revision: 2, family: "IPv6" }), []);
  const changes = () => spans().all.flatMap(({ attributes: { "sluice.changes": n } }) => n === undefined ? [] : [n]);
  assert.deepEqual(changes(), [0, 0, 0]);
  // A worker that died reports nothing; its successor reports a later revision with the changes of both.
  planned("IPv4", 2, 0);
  ledgers.IPv4.sent(3, 3);
  reported(report({ revision: 3 }), []);
  reported(report({ revision: 3 }), []);
  assert.deepEqual(changes(), [3, 0]);
});
