import type { Family } from "../../platform/mod.ts";
import type { ProblemCode } from "../problems/mod.ts";
import type { ServicePortName } from "./service_port.ts";
import type { SyncFigures } from "./sync_figures.ts";

/** Part of the state that could not be programmed. */
export interface SyncProblem {
  readonly code: ProblemCode;
  /** The service port that is not served; undefined where the problem concerns the whole family. */
  readonly servicePort: ServicePortName | undefined;
  /** The tool or step that failed, its error message, and what happens next. */
  readonly message: string;
}

/** The result of one sync, sent by the worker to the main isolate. */
export interface SyncReport {
  readonly family: Family;
  /** The newest revision that was tried. */
  readonly revision: number;
  /** Whether all of that revision is in effect, except for `problems`. */
  readonly ok: boolean;
  /** Whether the sync covered everything: a full snapshot, or a comparison with the kernel. */
  readonly full: boolean;
  /** Wall time at which it ended, in milliseconds since 1970. */
  readonly endedAtMs: number;
  readonly durationMs: number;
  readonly problems: readonly SyncProblem[];
  /** Whether the worker will sync again without a delta: to retry a failure, or because the backend requested it. */
  readonly unfinished?: true;
  /** The figures of this sync; those of its mode by the names that the mode's description declares. */
  readonly figures: SyncFigures<string>;
}
