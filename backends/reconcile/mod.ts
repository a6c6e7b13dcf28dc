/**
 * Reconciliation that all modes share: when to read the kernel, what to do if it refuses a change, and which figures to
 * keep. A mode supplies a `Target`: list, write, retry.
 *
 * In: the desired state of a mode, through its target. Out: calls of the target, problems, figures. May touch: nothing.
 */
export { type Accumulator, createAccumulator } from "./accumulator.ts";
export { findRefused } from "./find_refused.ts";
export {
  createReconciler,
  type Listing,
  type Outcome,
  type Reconciler,
  type Round,
  type Target,
} from "./reconciler.ts";
export { createRefusals, type Refusals } from "./refusals.ts";
export { shortHash } from "./short_hash.ts";
