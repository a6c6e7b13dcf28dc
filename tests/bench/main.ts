/**
 * Measures every stage of a change's way from the API server to the kernel's tools at growing sizes:
 * `deno task bench`, or `deno task bench plan channel` for stages whose names begin so. Exits with status 1 where the
 * cost of one change depends on the number of services.
 */
import { channelStage } from "./channel.ts";
import { decodeStage } from "./decode.ts";
import { growthExponent } from "./growth.ts";
import { iptablesDifferenceStage } from "./iptables_difference.ts";
import { iptablesRenderStage } from "./iptables_render.ts";
import { ipvsDifferenceStage } from "./ipvs_difference.ts";
import { measure } from "./measure.ts";
import { nftablesDifferenceStage } from "./nftables_difference.ts";
import { planStage } from "./plan.ts";
import type { Stage } from "./stage.ts";
import { HEADINGS, rowsOf } from "./table.ts";
import { trackStage } from "./track.ts";

const STAGES: readonly Stage[] = [
  decodeStage,
  trackStage,
  planStage,
  channelStage,
  iptablesRenderStage,
  iptablesDifferenceStage,
  nftablesDifferenceStage,
  ipvsDifferenceStage,
];

const SIZES = [1_000, 10_000, 50_000];

/** A change at 50 times the services may miss the processor's caches, which takes some 0.3; a scan of all takes 1. */
const GREATEST_CHANGE_GROWTH = 0.5;

const wanted = STAGES.filter(({ name }) => Deno.args.length === 0 || Deno.args.some((arg) => name.startsWith(arg)));
const growing: string[] = [];
console.log(HEADINGS);
for (const stage of wanted) {
  const measurements = await measure(stage, SIZES);
  for (const row of rowsOf(measurements)) console.log(row);
  const growth = growthExponent(measurements[0]!, measurements.at(-1)!, ({ changeUs }) => changeUs);
  if (growth > GREATEST_CHANGE_GROWTH) growing.push(`${stage.name}: one change grows as n^${growth.toFixed(2)}`);
}
for (const complaint of growing) console.error(complaint);
Deno.exitCode = growing.length === 0 ? 0 : 1;
