import assert from "node:assert/strict";
import { type FamilyStatusDetails, type ProxyStatus, viewOf } from "../../../../answers/control/status.ts";
import type { Family } from "../../../../core/model/mod.ts";
import { createSourceLink } from "../../../../observe/process/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const AFTERNOON = Date.UTC(2026, 10, 22, 14, 3, 20);
const SERVER = "https://10.0.0.1:6443";

function start() {
  const clock = createFakeClock(AFTERNOON + 60_000);
  const link = createSourceLink(clock);
  const status = (source = "kube"): ProxyStatus => ({
    link: link.current(),
    nodeAddresses: [],
    zone: "",
    kernel: "6.1.0",
    version: "0.2.0",
    node: "here",
    mode: "nftables",
    source,
    atMs: clock.now(),
    startedAtMs: AFTERNOON,
    stamp: "",
    healthy: true,
    nodeEligible: true,
    services: 0,
    changesToPlan: 0,
    residentBytes: 0,
    features: {},
    families: [],
    problems: [],
  });
  return { clock, link, status };
}

Deno.test("a proxy that serves the kept state says of when it is, and that the server is unreachable", () => {
  const { link, status } = start();
  link.report("services", SERVER, { type: "failed", error: "no route to host", retryInMs: 250 });
  link.serveKept(AFTERNOON);
  assert.deepEqual(viewOf(status()).state, {
    tone: "bad",
    words: "serving the state of 14:03 UTC, API server unreachable",
    reason: "no route to host",
  });
  assert.match(viewOf(status("grpc://a:1")).state.words, /, server unreachable$/);
  assert.equal(viewOf(status()).inOrder, false);
});

Deno.test("kept endpoints that were revised are counted, unless all pods are where they were", () => {
  const { link, status } = start();
  link.serveKept(AFTERNOON, { replaced: 0, leftOut: 0 });
  assert.match(viewOf(status()).state.words, /^serving the state of 14:03 UTC, API/);
  link.serveKept(AFTERNOON, { replaced: 12, leftOut: 3 });
  assert.equal(
    viewOf(status()).state.words,
    "serving the state of 14:03 UTC (pods of this node: 12 endpoints with a new address, 3 left out), API server unreachable",
  );
  link.serveKept(undefined);
  assert.equal(link.current().keptEndpoints, undefined);
});

Deno.test("a kept state of another day has its date", () => {
  const { link, status } = start();
  link.serveKept(AFTERNOON - 86_400_000);
  assert.match(viewOf(status()).state.words, /^serving the state of 2026-11-21 14:03 UTC, /);
});

Deno.test("while the server sends its state, the kept one is in effect, and not all is in order", () => {
  const { link, status } = start();
  link.serveKept(AFTERNOON);
  link.report("services", SERVER, { type: "answered" });
  const { tone, words } = viewOf(status()).state;
  assert.deepEqual([tone, words], [
    "warning",
    "serving the state of 14:03 UTC until that of the API server is read",
  ]);
  assert.equal(viewOf(status()).inOrder, false);
  link.serveKept(undefined);
  assert.equal(viewOf(status()).state.words, "all in sync");
  assert.equal(viewOf(status()).inOrder, true);
});

Deno.test("a family whose rules differ at every comparison, or that is behind, is not in order, and the other one is", () => {
  const { status } = start();
  const sync = { revision: 1, ok: true, full: true, endedAtMs: AFTERNOON, durationMs: 1, figures: {}, problems: 0 };
  const family = (name: Family): FamilyStatusDetails => ({
    ...{ family: name, worker: { state: "ready" }, syncs: [sync], lastChangeMs: undefined, driftRepaired: 0 },
    ...{ latency: undefined, healthy: true, revision: 1, servicePorts: 1, changesPending: 0, features: {} },
    noLocalEndpoints: { internal: 0, external: 0 },
  });
  const families = [family("IPv4"), family("IPv6")];
  const quiet = { ...status(), link: undefined, families };
  assert.equal(viewOf(quiet).inOrder, true);
  const drift = {
    code: "rules-changed-by-others",
    subject: "IPv6",
    detail: "by firewalld",
    sinceMs: 0,
    lastMs: 0,
    count: 1,
  } as const;
  const disturbed = { ...quiet, problems: [drift] };
  assert.equal(viewOf(disturbed).inOrder, false);
  assert.equal(viewOf(disturbed).state.words, "IPv6: the rules differ at every comparison");
  const overdue = { ...drift, code: "changes-overdue", detail: "it hangs", sinceMs: quiet.atMs - 7_000 } as const;
  const behind = { ...quiet, problems: [overdue] };
  assert.equal(viewOf(behind).inOrder, false);
  assert.equal(viewOf(behind).state.words, "IPv6: behind: a tool or the kernel does not answer");
});
