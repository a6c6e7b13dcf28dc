import type { Family } from "../../platform/mod.ts";
import type { ServicePortName } from "./service_port.ts";

/** What could not be programmed, and for whom. */
export interface SyncProblem {
  /** The service port that is not served, where one is to blame. */
  readonly servicePort: ServicePortName | undefined;
  /** Which tool or step failed, why, in its own words, and what happens next. */
  readonly message: string;
}

/** How one sync went, as the worker tells the main isolate. */
export interface SyncReport {
  readonly family: Family;
  /** The newest revision that was tried. */
  readonly revision: number;
  /** Whether all of that revision is in effect, but for `problems`. */
  readonly ok: boolean;
  /** Whether everything was looked at (a whole state, or a comparison with the kernel). */
  readonly full: boolean;
  /** Wall time at which it ended, in milliseconds since 1970. */
  readonly endedAtMs: number;
  readonly durationMs: number;
  readonly problems: readonly SyncProblem[];
  /** Whether the worker goes on without a delta: it tries again what failed, or looks after something later. */
  readonly unfinished?: true;
  /** The figures of this sync by metric, for the metrics of the backend's own (see observe/metrics.ts). */
  readonly figures: Readonly<Record<string, number>>;
}
