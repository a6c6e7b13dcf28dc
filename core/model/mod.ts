/**
 * Defines the data that travels from the planner to the workers: plain objects per IP family, with every decision taken.
 * Addresses are canonical strings (see platform/address.ts), endpoints are `address:port` strings.
 *
 *   service_port.ts      one port of one Service, with every decision taken, and its size in the kernel
 *   endpoint_edits.ts    the difference between two versions of a service port that differ in endpoints only
 *   frontend.ts          the addresses and ports of a service port, with the verdict of each
 *   balance.ts           how connections are spread over the endpoints, and the share of each
 *   slot_table.ts        tables of consistent hashing and of weights
 *   family_settings.ts   the settings of all services of a family, and the start of its worker
 *   delta.ts             the changes since a revision, or a full snapshot, and the ports of the relay that they need
 *   sync_report.ts       the result and the counts of a sync
 *   traffic.ts           counts of traffic since the previous reading
 *   worker_calls.ts      calls to a family's worker, and those that every proxy uses
 *
 * In: nothing. Out: types, and functions that read them. May touch: nothing.
 */
export type { Family } from "../../platform/mod.ts";
export * from "./balance.ts";
export * from "./endpoint_edits.ts";
export { type EndpointIndex, hashOf } from "./slot_table.ts";
export * from "./delta.ts";
export * from "./family_settings.ts";
export * from "./service_port.ts";
export * from "./traffic.ts";
export * from "./sync_report.ts";
export * from "./worker_calls.ts";
export * from "./frontend.ts";
