import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family, SyncReport } from "../core/model/mod.ts";
import type { Problem } from "../core/problems/mod.ts";
import { FAMILIES } from "../platform/mod.ts";

/** The summary of one sync. */
export type SyncSummary =
  & Pick<SyncReport, "revision" | "ok" | "full" | "endedAtMs" | "durationMs" | "counts">
  & { readonly problems: number };

/** The time from a change of endpoints to its effect, over the last changes. */
interface Latency {
  /** The number of changes that the percentiles cover. */
  readonly changes: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

/** The recent history of one family. */
export interface FamilyRecord {
  readonly family: Family;
  readonly worker: FamilyHealth;
  /** The last syncs of this run, the newest first. */
  readonly syncs: readonly SyncSummary[];
  /** When the last change of endpoints took effect, in milliseconds since 1970; undefined before the first one. */
  readonly lastChangeMs: number | undefined;
  /** The number of changes by other programs that were repaired. */
  readonly driftRepaired: number;
  /** Undefined before the first change. */
  readonly latency: Latency | undefined;
}

/** Keeps a bounded history of syncs for the status page and `sluice top`. */
export interface StatusRecorder {
  /** Records a finished sync, and the trigger times of the changes that took effect with it (milliseconds since 1970). */
  report(report: SyncReport, triggerTimesMs: readonly number[]): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  families(): readonly FamilyRecord[];
  /** Another run of this process begins: no sync of it has ended. */
  startRun(): void;
}

const SYNCS = 32;
const LATENCIES = 512;

/** Creates a recorder without history. */
export function createStatusRecorder(): StatusRecorder {
  const states = new Map(FAMILIES.map((family) => [family, createFamilyState()]));

  return {
    report(report, triggerTimesMs) {
      const { family, revision, ok, full, endedAtMs, durationMs, counts } = report;
      const state = states.get(family)!;
      state.syncs.unshift({ revision, ok, full, endedAtMs, durationMs, counts, problems: report.problems.length });
      state.syncs.length = Math.min(state.syncs.length, SYNCS);
      state.driftRepaired += counts.drift_repaired ?? 0;
      if (triggerTimesMs.length > 0) state.lastChangeMs = endedAtMs;
      for (const triggeredMs of triggerTimesMs) {
        state.latencies[state.changes++ % LATENCIES] = Math.max(0, endedAtMs - triggeredMs);
      }
    },
    workerHealth(family, health) {
      states.get(family)!.worker = health;
    },
    startRun() {
      for (const state of states.values()) Object.assign(state, { worker: { state: "starting" }, syncs: [] });
    },
    families: () =>
      [...states].map(([family, { worker, syncs, lastChangeMs, driftRepaired, latencies, changes }]) => ({
        family,
        worker,
        syncs: [...syncs],
        lastChangeMs,
        driftRepaired,
        latency: latencyOf(latencies.subarray(0, Math.min(changes, LATENCIES))),
      })),
  };
}

function createFamilyState() {
  return {
    worker: { state: "starting" } as FamilyHealth,
    syncs: [] as SyncSummary[],
    lastChangeMs: undefined as number | undefined,
    driftRepaired: 0,
    /** A ring buffer of milliseconds. */
    latencies: new Float32Array(LATENCIES),
    /** The number of all changes so far. */
    changes: 0,
  };
}

function latencyOf(latencies: Float32Array): Latency | undefined {
  if (latencies.length === 0) return undefined;
  const sorted = latencies.slice().sort();
  const share = (part: number) => Math.round(sorted[Math.ceil(sorted.length * part) - 1]!);
  return { changes: sorted.length, p50Ms: share(0.5), p90Ms: share(0.9), p99Ms: share(0.99), longestMs: share(1) };
}

/** The problems of a sync. Its worker has already logged them. */
export function problemsOfSync({ family, problems }: SyncReport): readonly Problem[] {
  return problems.map(({ code, servicePort, message: detail }) => ({
    code,
    subject: servicePort === undefined ? family : `${servicePort} (${family})`,
    detail,
  }));
}

/** The reason why a sync failed. */
export function failureOf({ problems }: SyncReport): string {
  return problems.find(({ servicePort }) => servicePort === undefined)?.message ?? "the sync failed";
}

/** The problem of a family's worker, if it has one. */
export function problemsOfWorker(family: Family, health: FamilyHealth): readonly Problem[] {
  switch (health.state) {
    case "restarting":
      return [{ code: "worker-failed", subject: family, detail: health.reason }];
    case "unfit":
      return [{
        code: health.unsupported ? "family-unsupported" : "setup-failed",
        subject: family,
        detail: health.reason,
      }];
    default:
      return [];
  }
}
