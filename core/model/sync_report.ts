import type { Family } from "../../platform/mod.ts";
import type { ProblemCode } from "../problems/mod.ts";
import type { ServicePortName } from "./service_port.ts";

/** Part of the state that could not be programmed. */
export interface SyncProblem {
  readonly code: ProblemCode;
  /** The service port that is not served; undefined where the problem concerns the whole family. */
  readonly servicePort: ServicePortName | undefined;
  /** The tool or step that failed, its error message, and what happens next. */
  readonly message: string;
}

/** The reason for a comparison with the kernel: the interval, or a known fault, for which it may cost more. */
export type ComparisonCause = "interval" | "fault";

/** The result of one sync, sent by the worker to the main isolate. */
export interface SyncReport {
  readonly family: Family;
  /** The newest revision that was tried. */
  readonly revision: number;
  /** Whether the whole revision is in effect, except for `problems`. */
  readonly ok: boolean;
  /** Whether the sync covered everything: a full snapshot, or a comparison with the kernel. */
  readonly full: boolean;
  /** Wall time at which it ended, in milliseconds since 1970. */
  readonly endedAtMs: number;
  readonly durationMs: number;
  readonly problems: readonly SyncProblem[];
  /** Whether the worker will sync again without a delta: to retry a failure, or because the backend requested it. */
  readonly unfinished?: true;
  /** The counts of this sync; mode-specific counts have the names in the mode's description. */
  readonly counts: SyncCounts<string>;
}

/** The counts that a sync in any mode can report. */
const COMMON = {
  /** Chains or elements that another program had changed and the sync repaired. */
  drift_repaired: true,
  /** Removed conntrack entries of stale UDP flows; absent if no removal has ended since the last sync. */
  conntrack_deleted: true,
  /** The duration of these removals in milliseconds. */
  conntrack_ms: true,
  /** Failed attempts to remove leftovers of other modes and of kube-proxy. */
  cleanup_failures: true,
};

type CommonCount = keyof typeof COMMON;

/** Whether every mode may report a count with this name. */
export function isCommonCount(name: string): name is CommonCount {
  return Object.hasOwn(COMMON, name);
}

/** The common counts, and those in the mode's description (backends/contract). Absent ones were not counted. */
export type SyncCounts<Declared extends string = never> = Readonly<
  Partial<Record<CommonCount | Declared, number>>
>;

/** A service port that the kernel refuses. */
interface RefusedPort {
  readonly servicePort: ServicePortName;
  /** The tool that failed and its error message. */
  readonly message: string;
}

/** The service ports that the kernel refuses. Other problems are of service ports that are served. */
export function refusedPorts(problems: readonly SyncProblem[]): readonly RefusedPort[] {
  return problems.flatMap(({ code, servicePort, message }) =>
    code === "rules-refused" && servicePort !== undefined ? [{ servicePort, message }] : []
  );
}
