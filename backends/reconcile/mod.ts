/**
 * Reconciliation that all modes share: when to read the kernel, how to handle refused changes, and which counts to keep. A mode
 * supplies a `Target`: list, write, retry.
 *
 * In: the desired state of a mode, through its target. Out: calls of the target, problems, counts. May touch: nothing.
 */
export * from "./reconciler.ts";
export * from "./refusals.ts";
export * from "./short_hash.ts";
export * from "./spellings.ts";
