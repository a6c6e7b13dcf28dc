import { type Attributes, type Context, ROOT_CONTEXT, SpanStatusCode, trace, type Tracer } from "@opentelemetry/api";
import { millisToHrTime } from "@opentelemetry/core";
import type { Family, SyncReport } from "../../core/model/mod.ts";
import type { Node, RunningFeature } from "../contract.ts";

type SyncTraces = Required<Pick<RunningFeature, "changed" | "reported">>;

/** Planned changes; times in milliseconds since 1970. */
interface Planned {
  readonly firstMs: number;
  readonly lastMs: number;
  /** The number of service ports; one that changed twice counts twice. */
  readonly changes: number;
  readonly rounds: number;
}

/** Planned changes that a sync has brought into effect. */
interface Sent extends Planned {
  readonly sentMs: number;
}

/**
 * Exports a trace for each sync of a run. What waits for a report takes a fixed amount of memory. The spans:
 *
 *   sync         from the planning of its first change to its effect in the kernel
 *     plan       from the first to the last round of planning
 *     channel    from the first planned change until all were sent to the family's worker
 *     apply      in the worker: the kernel's tools
 */
export function createSyncTraces(
  tracer: Tracer,
  { mode, ledgers, clock }: Pick<Node, "mode" | "ledgers" | "clock">,
): SyncTraces {
  /** The changes that the sync about to be reported has brought into effect. */
  const settled = new Map<Family, Sent>();
  const waitingIn = (family: Family) =>
    ledgers[family].awaiting<"changes", Planned>({
      settled: (rounds, { sentAtMs }) => {
        settled.set(family, { ...rounds.map(([, planned]) => planned).reduce(together), sentMs: sentAtMs });
      },
      join: together,
    });
  const waiting = { IPv4: waitingIn("IPv4"), IPv6: waitingIn("IPv6") };
  return {
    changed(family, { set, deleted }, startedAtMs) {
      const changes = set.size + deleted.length;
      const round = { firstMs: startedAtMs, lastMs: clock.now(), changes, rounds: 1 };
      const earlier = waiting[family].unsent("changes");
      waiting[family].add("changes", earlier ? together(earlier, round) : round);
    },
    reported(report, triggerTimesMs) {
      const sent = settled.get(report.family);
      settled.delete(report.family);
      writeSpans(tracer, report, sent, {
        ...attributesOf(report),
        "sluice.mode": mode.name,
        "sluice.changes": sent?.changes ?? 0,
        ...(triggerTimesMs.length > 0
          ? { "sluice.programming_latency_ms": report.endedAtMs - triggerTimesMs.reduce((a, b) => Math.min(a, b)) }
          : {}),
      });
    },
  };
}

function together(before: Planned, after: Planned): Planned {
  const [changes, rounds] = [before.changes + after.changes, before.rounds + after.rounds];
  return { firstMs: before.firstMs, lastMs: after.lastMs, changes, rounds };
}

function writeSpans(tracer: Tracer, report: SyncReport, sent: Sent | undefined, attributes: Attributes): void {
  const { endedAtMs, durationMs, problems } = report;
  const startedMs = endedAtMs - durationMs;
  const write = (name: string, [startMs, endMs]: readonly [number, number], parent: Context, given?: Attributes) => {
    const span = tracer.startSpan(name, { startTime: millisToHrTime(startMs), attributes: given }, parent);
    return { within: trace.setSpan(parent, span), end: () => span.end(millisToHrTime(Math.max(startMs, endMs))), span };
  };
  const sync = write("sync", [Math.min(startedMs, sent?.firstMs ?? startedMs), endedAtMs], ROOT_CONTEXT, attributes);
  if (sent !== undefined) {
    const { firstMs, lastMs, sentMs, rounds } = sent;
    write("plan", [firstMs, lastMs], sync.within, { "sluice.rounds": rounds }).end();
    write("channel", [firstMs, sentMs], sync.within).end();
  }
  const apply = write("apply", [startedMs, endedAtMs], sync.within);
  if (!report.ok) {
    for (const { span } of [sync, apply]) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: problems[0]?.message });
    }
  }
  apply.end();
  sync.end();
}

function attributesOf({ family, revision, ok, full, problems, counts }: SyncReport): Attributes {
  const codes = [...new Set(problems.map(({ code }) => code))];
  return {
    "sluice.family": family,
    "sluice.revision": revision,
    "sluice.full": full,
    "sluice.result": !ok ? "failed" : problems.length > 0 ? "partial" : "ok",
    ...(codes.length > 0 ? { "sluice.problems": codes, "error.type": codes[0] } : {}),
    ...Object.fromEntries(Object.entries(counts).map(([name, value]) => [`sluice.counts.${name}`, value])),
  };
}
