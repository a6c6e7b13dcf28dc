/**
 * Converts a store's state to the operations of KPNG's global and per-node sets.
 *
 * In: states of a store. Out: encoded operations. May touch: nothing.
 */
export { contentHash, difference, everythingOf, RESET, SYNC, type View } from "./operations.ts";
export { createGlobalView } from "./global_view.ts";
export { createLocalViews, type LocalViews } from "./local_view.ts";
