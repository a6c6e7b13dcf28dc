/**
 * Breaks down the memory of a large cluster with heap snapshots between the stages from the API server to the kernel:
 * `deno task bench:memory`, or `deno task bench:memory 5000` for another number of services than 10,000.
 */
import { IPTABLES_LAYOUTS } from "../../backends/xtables/base_chains.ts";
import { createChainReconciler } from "../../backends/xtables/reconcile.ts";
import { createIptablesTools } from "../../backends/xtables/tools.ts";
import { createFamilyChannel } from "../../core/channel/family_channel.ts";
import type { FamilyDelta } from "../../core/model/mod.ts";
import { decodeObject } from "../../core/objects/decode.ts";
import { KINDS } from "../../core/objects/cluster_object.ts";
import { createFamilyPlanner } from "../../core/planning/mod.ts";
import { REST_DELAYS } from "../../core/channel/idle_worker.ts";
import { createItemScanner } from "../../sources/kubernetes/list.ts";
import { createKnownObjects } from "../../sources/kubernetes/known_objects.ts";
import { createTracking, type Tracking } from "../../core/tracking/trackers.ts";
import { systemClock } from "../../platform/clock.ts";
import { fakeSettings } from "../fakes/service_port.ts";
import { listResponse } from "./api_text.ts";
import { createCountingRunner } from "./counting_runner.ts";
import { CONTENTS, type HeapAccount, heapGrowth, takeHeapAccount } from "./heap_snapshot.ts";
import { emptyRuleset } from "./iptables_render.ts";
import { throwingLogger } from "./throwing_logger.ts";
import { NODE_NAME } from "./tracked_cluster.ts";
import { failOnProblems } from "../fakes/problems.ts";

const services = Number(Deno.args[0] ?? 10_000);
const rows: (readonly [stage: string, growth: HeapAccount])[] = [];
/** Keeps the state of every stage alive, as in the running program. */
const held: unknown[] = [];

let before = await takeHeapAccount();
const account = async (stage: string) => {
  const after = await takeHeapAccount();
  rows.push([stage, heapGrowth(before, after)]);
  before = after;
};
rows.push(["the program itself", before]);

const tracking = createTracking({
  kinds: KINDS,
  nodeName: NODE_NAME,
  bindAddress: "0.0.0.0",
  clock: systemClock,
  onChange() {},
  onProblems: failOnProblems,
});
for (const kind of ["Service", "EndpointSlice"] as const) {
  held.push(listInto(tracking, kind));
  await account(`main: ${kind}s, tracked`);
}
for (const kind of KINDS) tracking.synced(kind);

const planner = createFamilyPlanner({ family: "IPv4", nodeName: NODE_NAME, tracking, onProblems: failOnProblems });
const { set } = planner.plan(tracking.take());
held.push(planner);
await account("main: planned");

const sent = Promise.withResolvers<FamilyDelta>();
const channel = createFamilyChannel({
  family: "IPv4",
  connect(listener) {
    queueMicrotask(() => listener.onReset());
    return {
      send: (delta) => sent.resolve(structuredClone(delta)),
      call: () => Promise.resolve(undefined),
      compare() {},
      rest: () => false,
      wake() {},
      cleanup: () => Promise.resolve(),
      stop: () => Promise.resolve(),
    };
  },
  minSyncPeriodMs: 0,
  restDelays: REST_DELAYS,
  mayRest: () => false,
  clock: systemClock,
  logger: throwingLogger,
});
channel.configure(fakeSettings());
channel.set(set);
channel.start();
held.push(channel);
const ruleset = emptyRuleset();
const chains = ruleset.apply(await sent.promise);
held.push(ruleset);
await account("worker: service ports and dispatch");

const reconciler = createChainReconciler({
  layout: IPTABLES_LAYOUTS.IPv4,
  ruleset,
  tools: createIptablesTools("IPv4", createCountingRunner()),
  flavour: "nf_tables",
  logger: throwingLogger,
});
reconciler.touch(chains);
await reconciler.run();
held.push(reconciler);
await account("worker: shadow of the kernel");

console.log(`MB at ${services.toLocaleString("en")} services of 3 endpoints, iptables mode\n`);
console.log(`| | ${CONTENTS.join(" | ")} | together |`);
console.log(`|---|${"---|".repeat(CONTENTS.length + 1)}`);
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);
for (const [stage, growth] of rows) {
  const together = CONTENTS.reduce((sum, content) => sum + growth[content], 0);
  console.log(`| ${stage} | ${[...CONTENTS.map((content) => growth[content]), together].map(megabytes).join(" | ")} |`);
}

/** Feeds a list response into the tracking; returns what the reflector keeps. */
function listInto(tracking: Tracking, kind: "Service" | "EndpointSlice"): unknown {
  const known = createKnownObjects(kind, decodeObject, tracking);
  const scanner = createItemScanner((item) => known.set(item));
  scanner.push(listResponse(kind, services));
  scanner.end();
  return known;
}
