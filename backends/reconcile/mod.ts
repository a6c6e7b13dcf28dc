/**
 * Reconciliation that all modes share: when to read the kernel, how to handle refused changes, and which counts to keep. A mode
 * supplies a `Target`: list, write, retry.
 *
 * In: the desired state of a mode, through its target. Out: calls of the target, problems, counts. May touch: nothing.
 */
export {
  type Accumulator,
  createAccumulator,
  createReconciler,
  type Outcome,
  type Reconciler,
  type RunState,
  SPELLING_REPAIRS,
  type Target,
} from "./reconciler.ts";
export { createRefusals, findRefused, type Refusals } from "./refusals.ts";
export { shortHash } from "./short_hash.ts";
