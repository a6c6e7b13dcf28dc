/**
 * Assembles a running proxy: a source, trackers, a planner and a channel per family, and their observers.
 *
 * In: configuration, and a function that starts a family's worker. Out: a proxy that runs until its signal is aborted. May
 * touch: listening sockets, and the network through its source.
 */
export { runProxy } from "./proxy.ts";
export type { ProxyOptions } from "./proxy_options.ts";
