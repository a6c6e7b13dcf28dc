/**
 * A store's state as the operations of KPNG's global and per-node sets.
 */
export { contentHash } from "./content_hash.ts";
export { createGlobalView } from "./global_view.ts";
export { createLocalView } from "./local_view.ts";
export { difference, everythingOf, RESET, SYNC } from "./operations.ts";
export type { View } from "./view.ts";
