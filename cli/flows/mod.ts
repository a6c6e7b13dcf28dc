/**
 * Connections to services, live, from this node's kernel. Costs nothing when not in use: the command starts and stops the
 * tools.
 *
 *   flow.ts              connections to services, from the events of connection tracking, and the services they go to
 *   trace.ts             the path of a packet, from the output of nft, its rules in words, and the reasons of drops
 *   lines.ts             connections, drops and paths as text
 *
 * In: output of tools. Out: connections and paths. May touch: the tools conntrack and nft.
 */
export {
  CONNTRACK_ARGS,
  createFlowTracker,
  createServiceFinder,
  type Flow,
  parseConntrackEvent,
  type ServiceFinder,
} from "./flow.ts";
export { collectTraces, markTraced, type Trace } from "./trace.ts";
export { dropLine, dropOf, flowLine, pathLines } from "./lines.ts";
