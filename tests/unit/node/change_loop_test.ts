import assert from "node:assert/strict";
import { KINDS } from "../../../core/objects/cluster_object.ts";
import type { NodeChange, TrackedChanges } from "../../../core/tracking/mod.ts";
import { createChangeLoop } from "../../../node/change_loop.ts";
import type { ServedFamily } from "../../../node/served_family.ts";
import { service } from "../../fakes/cluster_objects.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { fakeTracking } from "../../fakes/tracking.ts";

/** A loop over two families with these services; `round` returns what was called, in order. */
function looping(services: readonly string[] = []) {
  const tracking = fakeTracking(), clock = createFakeClock(), calls: string[] = [];
  let tasks = 0;
  for (const kind of KINDS) tracking.synced(kind);
  for (const [i, name] of services.entries()) {
    tracking.set(service(name, { clusterIPs: [`10.0.${i >> 8}.${i & 255}`] }));
  }
  const note = (call: string) => () => void calls.push(call);
  const families = ["IPv4", "IPv6"].map((family) => ({
    ...{ configure: note(`configure ${family}`), apply: note(`apply ${family}`), start: note(`start ${family}`) },
    startAhead: (first: readonly string[]) => void calls.push(`ahead ${family} ${first}`),
    holdHealthChecks: note(`hold ${family}`),
  } as unknown as ServedFamily));
  let changes: Partial<TrackedChanges> = {};
  const schedule = createChangeLoop({
    tracking: { ...tracking, take: () => ({ ...tracking.take(), node: undefined, serviceRanges: false, ...changes }) },
    families,
    planHealthChecks: () => ({ set: [], deleted: [] }),
    reportAnnotations: note("annotations"),
    serviceHealth: { apply: note("health checks") },
    onNodeChange: note("node"),
    onPlanned: note("planned"),
    onStarted: note("started"),
    pace: { delayMs: () => 2, began: note("began") },
    clock: {
      ...clock,
      schedule: (delayMs, callback) =>
        clock.schedule(delayMs, () => {
          tasks++;
          callback();
        }),
    },
  });
  return {
    /** The number of tasks so far. */
    tasks: () => tasks,
    /** A round with these changes. */
    round(some: Partial<TrackedChanges> = {}) {
      changes = some;
      schedule();
      clock.advance(2);
      return calls.splice(0);
    },
  };
}

const PLANNED = ["annotations", "planned", "health checks", "hold IPv4", "hold IPv6"];

Deno.test("the first round configures and starts each family once it has the whole state", () => {
  const { round, tasks } = looping();
  assert.deepEqual(round(), [
    ...["began", "configure IPv4", "apply IPv4", "start IPv4", "configure IPv6", "apply IPv6", "start IPv6"],
    ...[...PLANNED, "started"],
  ]);
  assert.equal(tasks(), 1);
});

Deno.test("later rounds configure the families if the node or the service ranges have changed", () => {
  const { round } = looping();
  round();
  const applied = ["apply IPv4", "apply IPv6"];
  const configured = ["configure IPv4", "apply IPv4", "configure IPv6", "apply IPv6"];
  assert.deepEqual(round(), ["began", ...applied, ...PLANNED]);
  assert.deepEqual(round({ serviceRanges: true }), ["began", ...configured, ...PLANNED]);
  assert.deepEqual(round({ node: {} as NodeChange }), ["began", "node", ...configured, ...PLANNED]);
});

Deno.test("among many services, those that others wait for are sent ahead of the first round", () => {
  const many = Array.from({ length: 2_000 }, (_, i) => `default/s${i}`);
  const { round, tasks } = looping([...many, "default/kubernetes", "kube-system/kube-dns"]);
  const first = "default/kubernetes,kube-system/kube-dns";
  const called = round();
  assert.deepEqual(called.slice(0, 3), [`ahead IPv4 ${first}`, `ahead IPv6 ${first}`, "began"]);
  assert.equal(called.filter((call) => call === "began").length, 1, "the others are planned once");
  assert.equal(tasks(), 2, "they are sent before the others are planned");
  assert.equal(round()[0], "began");
  assert.equal(tasks(), 3);
});
