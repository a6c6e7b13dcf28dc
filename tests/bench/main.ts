/**
 * Measures every stage between the API server and the kernel's tools at growing cluster sizes:
 * `deno task bench`, or `deno task bench plan channel` for stages whose names start with these words. Exits with status 1
 * if the cost of one change grows with the number of services.
 */
import { channelStage } from "./channel.ts";
import { decodeStage } from "./decode.ts";
import { iptablesDifferenceStage } from "./iptables_difference.ts";
import { iptablesRenderStage } from "./iptables_render.ts";
import { ipvsDifferenceStage } from "./ipvs_difference.ts";
import { growthExponent, measure } from "./measure.ts";
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

/** The highest accepted exponent: cache misses at 50 times the services cause about 0.3, a scan of all services 1. */
const MAX_CHANGE_GROWTH = 0.5;

const wanted = STAGES.filter(({ name }) => Deno.args.length === 0 || Deno.args.some((arg) => name.startsWith(arg)));
const growing: string[] = [];
console.log(HEADINGS);
for (const stage of wanted) {
  const measurements = await measure(stage, SIZES);
  for (const row of rowsOf(measurements)) console.log(row);
  const growth = growthExponent(measurements[0]!, measurements.at(-1)!, ({ changeUs }) => changeUs);
  if (growth > MAX_CHANGE_GROWTH) growing.push(`${stage.name}: the cost of one change grows as n^${growth.toFixed(2)}`);
}
for (const message of growing) console.error(message);
Deno.exitCode = growing.length === 0 ? 0 : 1;
