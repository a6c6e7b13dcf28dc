/**
 * Connections to services, live, from this node's kernel. Costs nothing when not in use: the command starts and stops the
 * tools.
 *
 *   flow.ts              connections to services, from the events of connection tracking, and the services they go to
 *   trace.ts             the path of a packet, from the output of nft, its rules in words, and the reasons of drops
 *
 * In: output of tools. Out: connections and paths. May touch: the tools conntrack and nft.
 */
export { createServiceFinder, type Flow, flowLine, readFlows, type ServiceFinder } from "./flow.ts";
export { dropLine, dropOf, markTraced, pathLines, readTraces, type Trace, type TracedPackets } from "./trace.ts";
