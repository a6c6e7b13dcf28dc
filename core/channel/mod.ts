/**
 * Sends the plan of one family to its worker, in deltas by revision, no faster than the kernel can take them.
 *
 *   family_channel.ts     the channel: one delta at a time, and limits on the frequency and the time share of syncs;
 *                         stops the worker of a family without service ports
 *   outgoing_state.ts     the planned state, and its difference from the last one sent, cut into portions
 *   family_link.ts        the interface to a family's worker
 *   ledger.ts             the state of planned changes: sent, in effect or refused
 *
 * In: the planner's changes. Out: deltas through a `FamilyLink`; reports of what is in effect. May touch: the clock.
 */
export { createFamilyChannel, type FamilyChannel, mayRest, REST_DELAYS, type RestDelays } from "./family_channel.ts";
export type * from "./family_link.ts";
export { type Awaited, createLedger, createLedgers, type Effect, type Ledger, type Ledgers } from "./ledger.ts";
