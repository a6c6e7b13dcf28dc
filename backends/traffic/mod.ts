/**
 * Counts of traffic, in any mode: from counters of the kernel to what has grown since the previous reading.
 *
 *   growth.ts          the growth of counters between readings
 *   frontend_index.ts  the service port of a frontend
 *   rows.ts            the rows of one reading
 *
 * In: counters of the kernel, service ports. Out: readings. May touch: nothing.
 */
export { createGrowth, type Grown, type Growth } from "./growth.ts";
export { type FrontendIndex, indexFrontends } from "./frontend_index.ts";
export { BYTES, collectRows, CONNECTIONS, PACKETS, type TrafficRows } from "./rows.ts";
