/**
 * Sends the plan of one family to its worker, in deltas by revision, no faster than the kernel can take them.
 *
 *   family_channel.ts     the channel: deltas, revisions, one at a time
 *   outgoing_state.ts     the planned state, and its difference from the last one sent
 *   pacing.ts             limits on the frequency and the time share of syncs
 *   family_link.ts        the interface to a family's worker
 *   idle_worker.ts        stops the worker of a family without service ports
 *   effect_history.ts     when planned changes took effect
 *   held_until_synced.ts  values held back until their changes are in effect
 *
 * In: the planner's changes. Out: deltas through a `FamilyLink`; reports of what is in effect. May touch: the clock.
 */
export { createEffectHistory, type Effect } from "./effect_history.ts";
export { createFamilyChannel, type FamilyChannel } from "./family_channel.ts";
export type {
  FamilyHealth,
  FamilyLink,
  FamilyListener,
  FamilyOptions,
  KernelSetting,
  RelaySettings,
  StartFamily,
  StopOptions,
} from "./family_link.ts";
export { createHeldUntilSynced } from "./held_until_synced.ts";
export { mayRest, REST_DELAYS, type RestDelays } from "./idle_worker.ts";
