import type { Family, PathCause } from "../core/model/mod.ts";

/**
 * Why the canary of a family does not answer, beyond what the kernel shows (`PathCause`):
 * - `rules-changed`: another program had removed or changed rules of services, which were repaired;
 * - `no-route`: this node has no route to the canary's address;
 * - `foreign-answer`: another program answers at its address;
 * - `unknown`: none of them was found.
 */
export type CanaryCause = PathCause | "rules-changed" | "no-route" | "foreign-answer" | "unknown";

/** The canary of one family. Plain data. */
export interface CanaryStatus {
  readonly family: Family;
  /**
   * - `waiting`: its rules are not in effect yet;
   * - `answering`: packets flow;
   * - `failing`: packets do not flow;
   * - `unusable`: it cannot be tried on this node, so nothing is known.
   */
  readonly state: "waiting" | "answering" | "failing" | "unusable";
  /** The beginning of the state, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** The `address:port` that is tried; undefined while there is none. */
  readonly address: string | undefined;
  /** Wall time of the last answer, in milliseconds since 1970; undefined before the first. */
  readonly lastAnswerMs: number | undefined;
  /** The duration of the last answered try. */
  readonly durationMs: number | undefined;
  /** The cause and the details if it is failing. */
  readonly cause: CanaryCause | undefined;
  readonly detail: string | undefined;
  /** All tries so far, and the failed ones by cause. */
  readonly tries: number;
  readonly failures: Readonly<Partial<Record<CanaryCause, number>>>;
}
