/**
 * Joins the rooms to a running proxy: a source, trackers, a planner and a channel per family, and what observes them.
 *
 * In: configuration and what starts a family's worker. Out: a proxy that runs until it is stopped.
 */
export { runProxy } from "./proxy.ts";
export type { ProxyOptions } from "./proxy_options.ts";
