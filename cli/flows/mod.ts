/**
 * Connections to services, live, from this node's kernel. It costs nothing while nobody asks: the command runs the tools
 * and ends them.
 *
 *   conntrack_events.ts  events of connection tracking
 *   flow.ts              connections to services, from these events
 *   trace_table.ts       the rules that mark packets to be traced
 *   trace_events.ts      the path of a packet, from the output of nft
 *   trace_words.ts       the rules on that path, in words, and the reasons of drops
 *   lines.ts             connections, drops and paths as text
 *
 * In: output of tools. Out: connections and paths. May touch: the tools conntrack and nft.
 */
export { CONNTRACK_ARGS, type ConntrackEvent, parseConntrackEvent } from "./conntrack_events.ts";
export { createFlowTracker, type FindService, type Flow } from "./flow.ts";
export { collectTraces, type Trace, type TracedPacket, type TraceStep } from "./trace_events.ts";
export { markTraced, type TracedPackets } from "./trace_table.ts";
export { type DropReason, dropReason } from "./trace_words.ts";
export { type Drop, dropLine, dropOf, flowLine, pathLines } from "./lines.ts";
