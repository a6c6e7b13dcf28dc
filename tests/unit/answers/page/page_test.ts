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
  assert.ok(whole.includes("&quot;&gt;&lt;img src=x onerror=alert(1)&gt;&#39;&amp;amp;&lt;script&gt;"));
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

Deno.test("the page shows its logo, which is also its icon", async () => {
  const { body } = await withHeaders();
  const [, logo] = /<div class="brand"><svg [^>]*>(.*?)<\/svg>/s.exec(body)!;
  assert.match(logo!, /^(<path d='M[^']+' stroke-width='[\d.]+'\/>)+$/);
  const [, icon] = /<link rel="icon" href="data:image\/svg\+xml,([^"]+)">/.exec(body)!;
  assert.ok(decodeURIComponent(icon!).replaceAll("&#39;", "'").includes(`>${logo}</svg>`));
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

/** The text of each part of the page. */
async function partsOf(status: Partial<ProxyStatus>, changes: Partial<PageAnswers> = {}) {
  const { body } = await (await pageOf({ ...STATUS, ...status }, changes)).live(request());
  const parts: Record<string, string> = JSON.parse(body).parts;
  const text = (name: string) =>
    parts[name]!.replace(/<svg[^]*?<\/svg>/g, "").replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").trim();
  return { parts, text };
}

const PROBLEM = {
  code: "sync-failed",
  subject: "IPv4",
  detail: "nft refused",
  sinceMs: 0,
  lastMs: 0,
  count: 1,
} as const;

Deno.test("problems are shown by kind, with what to do; of many occurrences, the first four", async () => {
  assert.equal((await partsOf({})).parts.problems, "");
  const { text: one, parts } = await partsOf({ problems: [{ ...PROBLEM, count: 3 }] });
  assert.match(
    one("problems"),
    /^Problems .+ sync-failed IPv4 since 00:00:00 UTC , reported 3 times nft refused Fix run sluice check ;/,
  );
  assert.match(parts.problems!, /<li class="bad"><p class="title">/);
  assert.match((await partsOf({ problems: [PROBLEM] })).text("problems"), /since 00:00:00 UTC nft refused/);
  const folded = async (count: number) => {
    const problems = Array.from({ length: count }, (_, i) => ({ ...PROBLEM, subject: `family ${i}` }));
    const { parts: { problems: markup } } = await partsOf({ problems });
    const [, more] = /<summary>([^<]*)<[^]*<b>family 4<[^]*<b>family 5</.exec(markup!) ?? [];
    return [more, (markup!.match(/<b>family \d</g) ?? []).length];
  };
  assert.deepEqual([await folded(4), await folded(6)], [[undefined, 4], ["2 more", 6]]);
});

Deno.test("the last hundred events are shown, the newest first", async () => {
  const shown = async (count: number) => {
    const events = Array.from({ length: count }, (_, i) => ({
      ...{ number: i, update: i, atMs: i * 1000, kind: "services", subject: `s${i}`, text: "removed", tone: "idle" },
    }));
    return await partsOf({}, { events: () => Promise.resolve({ events } as never) });
  };
  assert.equal((await shown(0)).text("events"), "Nothing has happened yet.");
  assert.equal((await shown(1)).text("events"), "00:00:00 s0 removed");
  const subjects = [...(await shown(120)).text("events").matchAll(/ s(\d+) /g)].map(([, number]) => Number(number));
  assert.deepEqual(subjects, Array.from({ length: 100 }, (_, i) => 119 - i));
});

Deno.test("a change that waits, the family of an event, and the detail of a problem are marked", async () => {
  const event = { number: 1, update: 1, atMs: 0, kind: "services", subject: "a/b", text: "removed", tone: "idle" };
  const eventsOf = async (more: object) =>
    (await partsOf({}, { events: () => Promise.resolve({ events: [{ ...event, ...more }] } as never) })).parts.events!
      .replace(/\s+/g, " ");
  assert.match(await eventsOf({ effect: "waiting" }), /<li class="idle waiting"/);
  assert.match(await eventsOf({ effect: "in effect", tookMs: 5 }), /<li class="idle"/);
  assert.match(await eventsOf({ family: "IPv6" }), /<span class="family-tag">IPv6<\/span>/);
  assert.doesNotMatch(await eventsOf({}), /family-tag|title=/);
  const withDetail = await eventsOf({ detail: "because" });
  assert.match(withDetail, /title="because"/);
  assert.equal(withDetail.match(/because/g)!.length, 1, "only there");
});

Deno.test("the summary has the verdict, the lines with a state, the counts, and a link to what needs attention", async () => {
  const link = { state: "disconnected", server: "https://api", lastError: "refused", sinceMs: 0 } as never;
  const { text, parts } = await partsOf({ healthy: true, link, source: "kube" });
  assert.match(parts.summary!, /^\s*<div class="verdict (bad|warning)"/);
  assert.match(text("summary"), /https:\/\/api/);
  assert.match(parts.summary!, /<dl class="counts">\s*<div>/);
  const empty = { refused: 0, unserved: 0, limited: 0, empty: 2 };
  const browse: PageAnswers["browse"] = async (question) => ({
    ...await createAnswers(basis).browse(question),
    attention: empty,
  });
  const attentive = await pageOf(STATUS, { browse });
  assert.match((await attentive.page(request())).body, /<a class="reason" href="\/\?show=attention" data-view>2 /);
  assert.doesNotMatch((await (await pageOf(STATUS)).page(request())).body, /href="\/\?show=attention"/);
});

Deno.test("a family's card has its state, its syncs, and its lines", async () => {
  const failing = fakeFamilyStatus({ worker: { state: "unfit", reason: "no nft", unsupported: false } });
  const { parts, text } = await partsOf({ families: [fakeFamilyStatus({ syncs: [fakeSync()] }), failing] });
  assert.deepEqual((parts.families!.match(/<svg class="chart"/g) ?? []).length, 1, "of the family that has synced");
  assert.match(parts.families!, /<article class="card family bad" data-family="IPv4">/);
  assert.match(text("families"), /IPv4 .*no nft/);
});

Deno.test("the forms keep what the other one shows", async () => {
  const { body } = await (await pageOf(STATUS)).page(
    request("q=web&ns=default&show=attention&to=10.0.0.1:80&from=pod"),
  );
  const formOf = (id: string) => {
    const [, form] = new RegExp(`<form id="${id}"([^]*?)</form>`).exec(body)!;
    const hidden = [...form!.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)];
    return Object.fromEntries(hidden.map(([, name, value]) => [name, value]));
  };
  assert.deepEqual(formOf("search"), { to: "10.0.0.1:80", from: "pod" });
  assert.deepEqual(formOf("explain"), { q: "web", ns: "default", show: "attention" });
  assert.match(body, /<article class="explanation"><h3><code>10\.0\.0\.1:80\/TCP<\/code> is cluster IP/);
  assert.match(
    body,
    /name="q" value="web"[^]*name="show" value="attention" checked[^]*name="to" value="10\.0\.0\.1:80"/,
  );
  assert.doesNotMatch((await (await pageOf(STATUS)).page(request())).body, / checked|type="hidden"/);
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
