import assert from "node:assert/strict";
import { type ProxyStatus, summaryOf } from "../../../../answers/control/mod.ts";

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
  families: [],
  problems: [],
};

Deno.test("a summary says since when: of the start in order, otherwise of the oldest error", () => {
  assert.deepEqual(summaryOf(STATUS), {
    inOrder: true,
    state: { tone: "good", words: "all in sync", reason: undefined },
    link: { tone: "good", words: "connected to https://api for 5 s", reason: "last answer 1 s ago" },
    sinceMs: 1000,
  });
  const problem = { subject: "x", detail: "", lastMs: 9000, count: 1 };
  const trouble = summaryOf({
    ...STATUS,
    link: { ...STATUS.link!, state: "disconnected", sinceMs: 7000 },
    problems: [
      { code: "source-unreachable", sinceMs: 7500, ...problem },
      { code: "stale-flows-kept", sinceMs: 2000, ...problem },
    ],
  });
  assert.deepEqual([trouble.inOrder, trouble.state.tone, trouble.sinceMs], [false, "bad", 7000]);
});
