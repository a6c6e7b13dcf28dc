/** Which observer is told of which event of a family, and the values that are read from the families' workers. */
import assert from "node:assert/strict";
import type { FamilyHealth } from "../../../core/channel/mod.ts";
import { readPacketCounts, type SyncReport } from "../../../core/model/mod.ts";
import { observeFamilies, packetCountsOf, relayCountsOf } from "../../../node/family_observers.ts";
import type { FamilyTopics, ServedFamily } from "../../../node/served_family.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createTopic } from "../../../platform/topic.ts";

/** Topics, and the calls of all their observers, in order: `health.updated IPv4`. */
function observed() {
  const calls: string[] = [];
  const observer = (name: string) =>
    new Proxy({}, {
      get: (_, method: string) => (first: unknown) => {
        const about = typeof first === "string" ? first : (first as Partial<SyncReport>).family;
        calls.push(`${name}.${method} ${about}`);
      },
    });
  const topics: FamilyTopics = { planned: createTopic(), reported: createTopic(), healthChanged: createTopic() };
  const names = ["health", "metrics", "recorder", "problems", "feed", "nodeEvents", "driftWatch", "features"];
  const observers = Object.fromEntries(names.map((name) => [name, observer(name)]));
  const all = { ...observers, logger: silentLogger, onNoneSupported: (reasons: string) => calls.push(reasons) };
  observeFamilies(topics, all as unknown as Parameters<typeof observeFamilies>[1]);
  return { ...topics, told: () => calls.splice(0).sort() };
}

const REPORT: SyncReport = {
  ...{ family: "IPv4", revision: 1, ok: true, full: false, endedAtMs: 0, durationMs: 1, problems: [], counts: {} },
};
const NO_CHANGES = { set: new Map(), deleted: [], replaced: new Map() };

Deno.test("each event of a family reaches every observer that needs it", () => {
  const { planned, reported, healthChanged, told } = observed();
  planned.publish("IPv6", NO_CHANGES, { first: undefined, isDualStack: true }, 0);
  assert.deepEqual(told(), [
    "features.changed IPv6",
    "feed.planned IPv6",
    "health.queuedUpdate IPv6",
    "metrics.queued IPv6",
  ]);
  const always = [
    ...["driftWatch.report IPv4", "features.reported IPv4", "feed.reported IPv4"],
    ...["metrics.observe IPv4", "nodeEvents.report IPv4", "problems.report sync IPv4", "recorder.report IPv4"],
  ];
  reported.publish(REPORT, []);
  assert.deepEqual(told(), [...always, "health.updated IPv4"].sort());
  reported.publish({ ...REPORT, ok: false }, []);
  assert.deepEqual(told(), [...always, "health.failed IPv4"].sort());
  const unsupported: FamilyHealth = { state: "unfit", reason: "no nft", unsupported: true };
  const workers = ["health", "metrics", "nodeEvents", "recorder"].map((name) => `${name}.workerHealth IPv4`);
  healthChanged.publish("IPv4", unsupported);
  assert.deepEqual(told(), [...workers, "problems.report worker IPv4"].sort());
  healthChanged.publish("IPv6", unsupported);
  assert.ok(told().includes("no nft"));
});

Deno.test("values of the workers are read from the families that have them", async () => {
  const packets = { ctStateInvalidDropped: 1, localhostNodePortsAccepted: 2 };
  const families = ["IPv4", "IPv6"].map((family) => ({
    family,
    call: ({ name }: { readonly name: string }) =>
      Promise.resolve(name === readPacketCounts.name && family === "IPv4" ? packets : undefined),
    relayCounts: () => Promise.resolve(family === "IPv6" ? { listeners: 3 } : undefined),
  } as unknown as ServedFamily));
  assert.deepEqual(await packetCountsOf(families), { IPv4: packets });
  assert.deepEqual(await relayCountsOf(families), { IPv6: { listeners: 3 } });
});
