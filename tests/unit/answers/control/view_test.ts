import assert from "node:assert/strict";
import { type FamilyStatusDetails, type ProxyStatus, viewOf } from "../../../../answers/control/mod.ts";
import type { Family } from "../../../../core/model/mod.ts";
import type { SyncSummary } from "../../../../observe/mod.ts";

const STATUS: ProxyStatus = {
  version: "0.2.0",
  node: "a",
  nodeAddresses: [],
  zone: "",
  kernel: "6.1",
  mode: "nftables",
  source: "kube",
  link: {
    state: "connected",
    server: "https://api",
    sinceMs: 5000,
    lastReceivedMs: 9000,
    lastError: undefined,
    lastErrorMs: undefined,
    retryAtMs: undefined,
  },
  atMs: 10_000,
  startedAtMs: 1000,
  healthy: true,
  nodeEligible: true,
  stamp: "",
  services: 0,
  changesToPlan: 0,
  residentBytes: 0,
  features: {},
  families: [],
  problems: [],
};

Deno.test("a view says since when: of the start in order, otherwise of the oldest error", () => {
  const { inOrder, state, link, sinceMs } = viewOf(STATUS);
  assert.deepEqual({ inOrder, state, link, sinceMs }, {
    inOrder: true,
    state: { tone: "good", words: "all in sync", reason: undefined },
    link: { tone: "good", words: "connected to https://api for 5 s", reason: "last answer 1 s ago" },
    sinceMs: 1000,
  });
  const problem = { subject: "x", detail: "", lastMs: 9000, count: 1 };
  const trouble = viewOf({
    ...STATUS,
    link: { ...STATUS.link!, state: "disconnected", sinceMs: 7000 },
    problems: [
      { code: "source-unreachable", sinceMs: 7500, ...problem },
      { code: "stale-flows-kept", sinceMs: 2000, ...problem },
    ],
  });
  assert.deepEqual([trouble.inOrder, trouble.state.tone, trouble.sinceMs], [false, "bad", 7000]);
});

Deno.test("a view counts the changes that wait, and finds the last sync that has succeeded", () => {
  const sync = (revision: number, ok: boolean): SyncSummary => (
    { revision, ok, full: false, endedAtMs: 0, durationMs: 1, figures: {}, problems: 0 }
  );
  const family = (family: Family, syncs: readonly SyncSummary[]): FamilyStatusDetails => ({
    ...{ family, syncs, worker: { state: "ready" }, healthy: true, revision: 3, servicePorts: 1, changesPending: 2 },
    ...{ latency: undefined, lastChangeMs: undefined, driftRepaired: 0, features: {} },
    noLocalEndpoints: { internal: 0, external: 0 },
  });
  const { waiting, uptime, families } = viewOf({
    ...STATUS,
    changesToPlan: 5,
    families: [
      family("IPv4", [sync(3, false), sync(2, true), sync(1, true)]),
      family("IPv6", [sync(3, false)]),
    ],
  });
  assert.deepEqual([waiting, uptime], [9, "9 s"]);
  assert.deepEqual(families.map(({ lastSync }) => lastSync?.revision), [2, undefined]);
});
