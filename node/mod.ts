/**
 * Assembles a running proxy: a source, trackers, a planner and a channel per family, and their observers.
 *
 *   run.ts               assembles one node and runs it until its signal is aborted
 *   proxy_options.ts     options of one run
 *   change_loop.ts       plans tracked changes and sends them to the families
 *   served_family.ts     planner, channel and worker of one family
 *   family_observers.ts  forwards events and values of the families to health, metrics and Events
 *   features.ts          the features that the configuration turns on
 *   family_task.ts       one-time tasks: --cleanup and --init-only
 *   node_watch.ts        reacts to this node's Node object
 *   running_answers.ts   answers of the running proxy
 *   running_status.ts    its status
 *
 * In: configuration, and a function that starts a family's worker. Out: a proxy that runs until its signal is aborted. May
 * touch: listening sockets, and the network through its source.
 */
export { runProxy } from "./run.ts";
export type { ProxyOptions } from "./proxy_options.ts";
