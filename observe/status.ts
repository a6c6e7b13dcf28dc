import { FAMILIES } from "../platform/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family, SyncReport } from "../core/model/mod.ts";

/** How one sync went: its report, without the revision's content. */
export type SyncSummary =
  & Pick<SyncReport, "revision" | "ok" | "full" | "endedAtMs" | "durationMs" | "figures">
  & { readonly problems: number };

/** How long changes of endpoints took to come into effect, over the last of them. */
export interface Latency {
  /** How many the others are of. */
  readonly changes: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

/** What happened to one family of late. */
export interface FamilyRecord {
  readonly family: Family;
  readonly worker: FamilyHealth;
  /** The last syncs, the newest first. */
  readonly syncs: readonly SyncSummary[];
  /** Undefined before the first change. */
  readonly latency: Latency | undefined;
}

/** Keeps what happened of late for those who look at a running proxy: little, and never more. */
export interface StatusRecorder {
  /** A sync has ended, and brought changes of these trigger times (milliseconds since 1970) into effect. */
  report(report: SyncReport, triggerTimesMs: readonly number[]): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  families(): readonly FamilyRecord[];
}

const SYNCS = 32;
const LATENCIES = 512;

/** A recorder of nothing so far. */
export function createStatusRecorder(): StatusRecorder {
  const states = new Map(FAMILIES.map((family) => [family, createFamilyState()]));

  return {
    report(report, triggerTimesMs) {
      const { family, revision, ok, full, endedAtMs, durationMs, figures } = report;
      const state = states.get(family)!;
      state.syncs.unshift({ revision, ok, full, endedAtMs, durationMs, figures, problems: report.problems.length });
      state.syncs.length = Math.min(state.syncs.length, SYNCS);
      for (const triggeredMs of triggerTimesMs) {
        state.latencies[state.changes++ % LATENCIES] = Math.max(0, endedAtMs - triggeredMs);
      }
    },
    workerHealth(family, health) {
      states.get(family)!.worker = health;
    },
    families: () =>
      [...states].map(([family, { worker, syncs, latencies, changes }]) => ({
        family,
        worker,
        syncs: [...syncs],
        latency: latencyOf(latencies.subarray(0, Math.min(changes, LATENCIES))),
      })),
  };
}

function createFamilyState() {
  return {
    worker: { state: "starting" } as FamilyHealth,
    syncs: [] as SyncSummary[],
    /** The last ones, in no order. */
    latencies: new Float32Array(LATENCIES),
    /** How many there were in all. */
    changes: 0,
  };
}

function latencyOf(latencies: Float32Array): Latency | undefined {
  if (latencies.length === 0) return undefined;
  const sorted = latencies.slice().sort();
  const share = (part: number) => Math.round(sorted[Math.ceil(sorted.length * part) - 1]!);
  return { changes: sorted.length, p50Ms: share(0.5), p90Ms: share(0.9), p99Ms: share(0.99), longestMs: share(1) };
}
