/** The status page as served. */
import assert from "node:assert/strict";
import { createAnswers, NotReadyError } from "../../../../answers/mod.ts";
import { type ProxyStatus, viewOf } from "../../../../answers/status/mod.ts";
import { stateOfFamily } from "../../../../answers/status/states.ts";
import { createStatusPage, type PageAnswers } from "../../../../answers/page/mod.ts";
import { createLedgers } from "../../../../core/channel/mod.ts";
import { createChangeFeed } from "../../../../observe/change_feed.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { fakeAnswerBasis, HERE } from "../../../fakes/answer_basis.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";
import { fakeFamilyStatus, fakeStatus, fakeSync } from "../../../fakes/proxy_status.ts";

const HOSTILE = `"><img src=x onerror=alert(1)>'&amp;<script>alert(2)</script>`;

const STATUS = fakeStatus({
  nodeAddresses: ["10.0.0.1"],
  zone: "a",
  atMs: 1_700_000_000_000,
  startedAtMs: 1_600_000_000_000,
  families: [fakeFamilyStatus(), fakeFamilyStatus({ family: "IPv6" })],
});

const basis = fakeAnswerBasis([
  node(HERE, { addresses: ["192.168.1.1"] }),
  service("default/web"),
  endpointSlice("default/web-1", [endpoint("10.1.0.1", { nodeName: HOSTILE, zone: HOSTILE })]),
]);

const clock = createFakeClock(), feed = createChangeFeed(clock, createLedgers(clock));
feed.problemChanged({ type: "raised", problem: { code: "sync-failed", subject: HOSTILE, detail: HOSTILE } });

const pageOf = (status: ProxyStatus, changes: Partial<PageAnswers> = {}) =>
  createStatusPage({
    ...createAnswers(basis),
    status: () => Promise.resolve(viewOf(status)),
    events: (since) => Promise.resolve(feed.read(since)),
    ...changes,
  });

const request = (query = "") => ({
  method: "GET",
  path: "/",
  query,
  accept: "",
  host: "localhost",
  isFromThisHost: true,
});

Deno.test("a resting family has no services, which is not a problem", async () => {
  const sync = fakeSync();
  const resting = fakeFamilyStatus({ family: "IPv6", worker: { state: "resting" }, syncs: [sync], servicePorts: 0 });
  const status = {
    ...STATUS,
    healthy: true,
    nodeEligible: true,
    problems: [],
    families: [fakeFamilyStatus({ syncs: [sync] }), resting],
  };
  assert.equal(stateOfFamily(resting, status).words, "no services");
  assert.deepEqual(viewOf(status).state, { tone: "good", words: "all in sync", reason: undefined });
  const { body } = await (await pageOf(status)).page(request());
  assert.match(body, /no services/);
});

Deno.test("names and messages from outside are rendered as text everywhere", async () => {
  const sync = fakeSync({ ok: false, problems: 1 });
  const page = await pageOf({
    ...STATUS,
    node: HOSTILE,
    source: HOSTILE,
    stamp: HOSTILE,
    families: [fakeFamilyStatus({ worker: { state: "unfit", reason: HOSTILE, unsupported: false }, syncs: [sync] })],
    problems: [{ code: "sync-failed", subject: HOSTILE, detail: HOSTILE, sinceMs: 0, lastMs: 0, count: 2 }],
  });
  const hostileQuery = new URLSearchParams({ q: HOSTILE }).toString();
  const { body: whole } = await page.page(request());
  const { body: searched } = await page.page(request(hostileQuery));
  const live = JSON.parse((await page.live(request(hostileQuery))).body);
  assert.ok(whole.includes("default/") && whole.includes("10.1.0.1"), "the service is included");
  assert.ok(whole.includes("&lt;img src=x onerror=alert(1)&gt;"));
  const scripts = /<script\b/g;
  for (const markup of [whole, searched, ...Object.values(live.parts) as string[]]) {
    assert.ok(!markup.includes("<img"), "it creates no element");
    assert.ok((markup.match(scripts) ?? []).length <= 1, "the page has only its own script");
    assert.ok(!/<[^>]*\son\w+=/i.test(markup.replace(/"[^"]*"/g, '""')), "it creates no event handler");
  }
});

Deno.test("only the page's own content may run, framing is forbidden, and the page is not cached", async () => {
  const { headers, body } = await withHeaders();
  const policy = headers["Content-Security-Policy"]!;
  assert.match(policy, /^default-src 'none'; /);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  for (const [tag, directive] of [["style", "style-src"], ["script", "script-src"]] as const) {
    const [, text] = new RegExp(`<${tag}>([^]*)</${tag}>`).exec(body)!;
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    const hash = btoa(String.fromCharCode(...new Uint8Array(digest)));
    assert.ok(policy.includes(`${directive} 'sha256-${hash}'`), `the policy includes the page's ${tag}`);
  }
  assert.match(policy, /frame-ancestors 'none'/);
  assert.equal(headers["Cache-Control"], "no-store");
  assert.ok(!("Access-Control-Allow-Origin" in headers));
  assert.doesNotMatch(body, /(src|href)="(https?:)?\/\//, "nothing is loaded from other hosts");
  assert.doesNotMatch(body, / style="/, "the policy would block it");
});

async function withHeaders() {
  const { fields = {}, body } = await (await pageOf(STATUS)).page(request());
  return { headers: fields, body };
}

Deno.test("services are sent again only if they may have changed", async () => {
  let browsed = 0;
  const page = await pageOf(STATUS, {
    browse(question) {
      browsed++;
      return createAnswers(basis).browse(question);
    },
  });
  const news = async (query: string) => JSON.parse((await page.live(request(query))).body);
  const first = await news("q=web&seen=");
  assert.match(first.parts.services, /10\.1\.0\.1:8080/);
  assert.equal(browsed, 1);
  const second = await news(`q=web&seen=${first.stamp}`);
  assert.equal(second.parts.services, undefined);
  assert.match(second.parts.summary, /waiting for the cluster/);
  assert.equal(browsed, 1, "nothing was looked up");
});

Deno.test("before caches are synced, the page says so", async () => {
  const page = await pageOf(STATUS, { browse: () => Promise.reject(new NotReadyError("too early")) });
  assert.match((await page.page(request())).body, /The services have not been read yet/);
});

Deno.test("an invalid view shows the first page of everything", async () => {
  const page = await pageOf(STATUS);
  for (const query of ["page=-1", "page=x", "page=1e99", "show=x", "q=%00", "page=999", "%"]) {
    assert.equal((await page.page(request(query))).status, 200, query);
  }
});
