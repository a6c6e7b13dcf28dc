import assert from "node:assert/strict";
import { headlineOf, type ProxyStatus, type StatusLine, viewOf } from "../../../../answers/status/mod.ts";
import { wordsText } from "../../../../cli/text/lines.ts";
import type { SyncSummary } from "../../../../observe/mod.ts";
import { createSourceLink } from "../../../../observe/process/mod.ts";
import { FAMILIES, type Family } from "../../../../platform/address.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { fakeFamilyStatus, fakeStatus, fakeSync } from "../../../fakes/proxy_status.ts";

const AFTERNOON = Date.UTC(2026, 10, 22, 14, 3, 20);
const SERVER = "https://10.0.0.1:6443";

function start() {
  const clock = createFakeClock(AFTERNOON + 60_000);
  const link = createSourceLink(clock);
  const status = (source = "kube"): ProxyStatus =>
    fakeStatus({ link: link.current(), source, atMs: clock.now(), startedAtMs: AFTERNOON });
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
  const syncs = [fakeSync({ endedAtMs: AFTERNOON })];
  const families = FAMILIES.map((family) => fakeFamilyStatus({ family, syncs }));
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

const linked = fakeStatus({
  startedAtMs: 1000,
  link: {
    state: "connected",
    server: "https://api",
    sinceMs: 5000,
    lastReceivedMs: 9000,
    lastError: undefined,
    lastErrorMs: undefined,
    retryAtMs: undefined,
  },
});

Deno.test("a view says since when: of the start in order, otherwise of the oldest error", () => {
  const { inOrder, state, linkState, sinceMs } = viewOf(linked);
  assert.deepEqual({ inOrder, state, linkState, sinceMs }, {
    inOrder: true,
    state: { tone: "good", words: "all in sync", reason: undefined },
    linkState: { tone: "good", words: "connected to https://api for 5 s", reason: "last answer 1 s ago" },
    sinceMs: 1000,
  });
  const problem = { subject: "x", detail: "", lastMs: 9000, count: 1 };
  const trouble = viewOf({
    ...linked,
    link: { ...linked.link!, state: "disconnected", sinceMs: 7000 },
    problems: [
      { code: "source-unreachable", sinceMs: 7500, ...problem },
      { code: "stale-flows-kept", sinceMs: 2000, ...problem },
    ],
  });
  assert.deepEqual([trouble.inOrder, trouble.state.tone, trouble.sinceMs], [false, "bad", 7000]);
});

const textOf = ({ lines }: { readonly lines: readonly StatusLine[] }, label: string) => {
  const line = lines.find((one) => one.label === label);
  return line && wordsText(line.words, 10_000);
};

Deno.test("a view counts the changes that wait, and shows the last sync that has succeeded", () => {
  const family = (family: Family, syncs: readonly SyncSummary[]) =>
    fakeFamilyStatus({ family, syncs, changesPending: 2, driftRepaired: 1 });
  const failed = fakeSync({ revision: 3, ok: false, endedAtMs: 9_000 });
  const view = viewOf({
    ...linked,
    changesToPlan: 5,
    families: [
      family("IPv4", [failed, fakeSync({ endedAtMs: 7_000, durationMs: 12 }), fakeSync()]),
      family("IPv6", [failed]),
    ],
  });
  assert.deepEqual(["Waiting", "Repaired"].map((label) => textOf(view, label)), [
    "9 changes",
    "2 changes by other programs",
  ]);
  assert.deepEqual(view.families.map((one) => textOf(one, "Last sync")), [
    "3 s ago, 12 ms, nothing to write",
    "none has succeeded yet",
  ]);
});

Deno.test("the reason of a family that is the detail of a problem is shown once, with the problem", () => {
  const problem = { code: "sync-failed", subject: "IPv4", sinceMs: 0, lastMs: 0, count: 1, detail: "nft: no" } as const;
  const syncs = [fakeSync({ ok: false })];
  const view = viewOf({ ...linked, families: [fakeFamilyStatus({ syncs })], problems: [problem] });
  assert.equal(view.families[0]!.state.reason, undefined);
  assert.deepEqual(view.problems.map(({ code, tone, occurrences }) => [code, tone, occurrences]), [
    ["sync-failed", "bad", [problem]],
  ]);
});

Deno.test("without a connection, a proxy says whether it has a state to serve", () => {
  const link = { ...linked.link!, state: "disconnected" } as const;
  const words = (syncs: readonly SyncSummary[]) =>
    viewOf({ ...linked, link, families: [fakeFamilyStatus({ syncs })] }).state.words;
  assert.match(words([fakeSync()]), /^cannot read https:\/\/api for 5 s: the last known state stays in effect$/);
  assert.match(words([]), /: nothing read from it yet, the kernel stays as it is$/);
});

Deno.test("manifests that cannot be read are broken, and the last state is said to stay in effect", () => {
  const gone = {
    code: "file-unreadable",
    subject: "/m",
    detail: "gone",
    sinceMs: 4000,
    lastMs: 9000,
    count: 1,
  } as const;
  const view = (syncs: readonly SyncSummary[]) =>
    viewOf({ ...linked, link: undefined, families: [fakeFamilyStatus({ syncs })], problems: [gone] });
  const { state, inOrder } = view([fakeSync()]);
  assert.deepEqual(state, {
    tone: "bad",
    words: "cannot read /m for 6 s: the last known state stays in effect",
    reason: "gone",
  });
  assert.equal(inOrder, false);
  assert.match(view([]).state.words, /^cannot read \/m for 6 s: nothing read from it yet/);
  assert.equal(headlineOf(view([])).reason, undefined, "the problem shows it");
});

Deno.test("an error of the API server is shown once: with its problem, if there is one", () => {
  const link = { ...linked.link!, state: "disconnected", lastError: "refused", retryAtMs: 12_000 } as const;
  const view = viewOf({ ...linked, link });
  assert.deepEqual([headlineOf(view).reason, view.linkState?.reason], ["refused", "last answer 1 s ago; retry in 2 s"]);
  const problem = { subject: "x", detail: "list services: refused", sinceMs: 0, lastMs: 9000, count: 1 };
  const listed = viewOf({ ...linked, link, problems: [{ code: "api-unreachable", ...problem }] });
  assert.equal(headlineOf(listed).reason, undefined);
  assert.equal(listed.state.reason, "refused", "for those who show no problems");
  const other = viewOf({ ...linked, link, problems: [{ code: "stale-flows-kept", ...problem }] });
  assert.equal(headlineOf(other).reason, "refused");
});

Deno.test("a missing Node object is the headline, and no node that is leaving", () => {
  const away = { ...linked, nodeEligible: false };
  assert.equal(viewOf({ ...away, nodeKnown: false }).state.words, `there is no Node object ${linked.node}`);
  assert.equal(viewOf(away).state.words, "the node is leaving");
});
