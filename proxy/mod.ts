/**
 * Assembles a running proxy: a source, trackers, a planner and a channel per family, and their observers.
 *
 *   proxy.ts             runs the proxy until its signal is aborted
 *   proxy_options.ts     options of one run
 *   change_loop.ts       plans tracked changes and sends them to the families
 *   served_family.ts     planner, channel and worker of one family
 *   family_observers.ts  forwards events of the families to health, metrics and Events
 *   canaries.ts          the canary of each family
 *   family_support.ts   warns about a family that this host cannot serve
 *   family_task.ts       one-time tasks: --cleanup and --init-only
 *   node_condition.ts    the condition of this node's Node object
 *   node_watch.ts        reacts to this node's Node object
 *   node_port_check.ts   reports node ports on more addresses than configured
 *   file_shares.ts       divides the limit of open files
 *   figures.ts           figures for the metrics
 *   running_answers.ts   answers of the running proxy
 *
 * In: configuration, and a function that starts a family's worker. Out: a proxy that runs until its signal is aborted. May
 * touch: listening sockets, and the network through its source.
 */
export { runProxy } from "./proxy.ts";
export type { ProxyOptions } from "./proxy_options.ts";
