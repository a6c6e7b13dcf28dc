/**
 * Parts that every mode's reconciler uses.
 */
export { findRefused } from "./find_refused.ts";
export { shortHash } from "./short_hash.ts";
