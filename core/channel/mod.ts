/**
 * Sends the plan of one family to its worker, in deltas by revision, no faster than the kernel can take them.
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
  StartFamily,
  StopOptions,
} from "./family_link.ts";
export { createHeldUntilSynced } from "./held_until_synced.ts";
export { mayRest, REST_DELAYS, type RestDelays } from "./idle_worker.ts";
