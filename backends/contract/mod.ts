/**
 * The interface that every backend implements, and the shape of a mode's description.
 *
 * In: deltas. Out: results of syncs. May touch: nothing; it holds types, and the life of a traffic reader.
 */
export * from "./backend.ts";
export * from "./mode.ts";
