/**
 * The modes of the proxy: a mode is a folder here and a line in registry.ts.
 *
 * In: the name of a mode. Out: its description, at once, and its backend, loaded late. May touch: nothing itself.
 */
export * from "./registry.ts";
export * from "./traces.ts";
