/** The parts of the status page: what a reader sees of each kind of service, explanation, problem and sync. */
import assert from "node:assert/strict";
import type {
  BrowsedService,
  ExplainedRules,
  Explanation,
  ListedEndpoint,
  ServicePage,
} from "../../../../answers/mod.ts";
import { addressOf, namespaceOptions, readView, servicesPart, type View } from "../../../../answers/page/services.ts";
import { explanationPart } from "../../../../answers/page/explanation.ts";
import type { Html } from "../../../../answers/page/html.ts";
import { syncChart } from "../../../../answers/page/sync_chart.ts";
import { STYLE } from "../../../../answers/page/style.ts";
import type { SyncSummary } from "../../../../observe/mod.ts";
import { fakeSync } from "../../../fakes/proxy_status.ts";

const WHOLE: View = { q: "", ns: "", show: "", page: 1, to: "", from: "" };

/** The text of a part, without drawings. */
function textOf({ markup }: Html): string {
  return markup.replace(/<svg[^]*?<\/svg>/g, "").replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").trim();
}

/** The values of an attribute in a part, in their order. */
function valuesOf({ markup }: Html, attribute: string, element = "\\w+"): readonly string[] {
  const values = markup.matchAll(new RegExp(`<${element}\\b[^>]*?\\s${attribute}="([^"]*)"`, "g"));
  return [...values].map(([, value]) => value!.replaceAll("&amp;", "&"));
}

const ENDPOINT: ListedEndpoint = {
  ...{ service: "default/web:http", family: "IPv4", protocol: "tcp" },
  ...{ target: "10.1.0.1:8080", node: "node-1", zone: "a", onThisNode: false },
  ...{ ready: true, serving: true, terminating: false, used: true },
  ...{ cluster: "ready", local: "remote", reason: "ready" },
};

const SERVICE: BrowsedService = {
  ...{ name: "default/web:http", family: "IPv4", type: "ClusterIP", protocol: "tcp", clusterIP: "10.0.0.1", port: 80 },
  ...{ externalIPs: [], loadBalancerIPs: [], nodePort: 0, internal: "cluster", external: "cluster" },
  ...{
    usedEndpoints: 1,
    endpoints: 1,
    affinitySeconds: 0,
    problems: [],
    served: true,
    effect: undefined,
    shownEndpoints: [ENDPOINT],
  },
};

function pageOf(services: readonly BrowsedService[], changes: Partial<ServicePage> = {}): ServicePage {
  const attention = { refused: 0, unserved: 0, limited: 0, empty: 0 };
  return { total: services.length, page: 1, pages: 1, services, attention, namespaces: [], ...changes };
}

const TABLE = "Use Endpoint Node Zone Why";
const ROW = "in 10.1.0.1:8080 node-1 a ready";
const EXPLAIN = "Explain a connection to 10.0.0.1:80";
const HEAD = "1 service port default/ web:http";

const SERVICES: Readonly<Record<string, readonly [changes: Partial<BrowsedService>, text: string, tone?: string]>> = {
  "a plain service": [{}, `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 1 ${TABLE} ${ROW} ${EXPLAIN}`, "good"],
  "the first three frontends, and the others below": [
    {
      ...{ type: "LoadBalancer", protocol: "udp", nodePort: 30080 },
      ...{ loadBalancerIPs: ["192.0.2.1"], externalIPs: ["198.51.100.1", "198.51.100.2"] },
    },
    `${HEAD} LoadBalancer IPv4 10.0.0.1:80 192.0.2.1:80 198.51.100.1:80 UDP 1 / 1 198.51.100.2:80 · *:30080 ` +
    `${TABLE} ${ROW} ${EXPLAIN}/udp`,
  ],
  "policies, balancing and affinity": [
    {
      ...{ internal: "local", external: "local", externalIPs: ["192.0.2.1"], affinitySeconds: 10_800 },
      balance: { algorithm: "consistent-hash", hash: "client" },
    },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 192.0.2.1:80 TCP 1 / 1 internal traffic stays on this node · traffic from ` +
    "outside stays on this node · balanced: consistent-hash by client · clients stay with their endpoint for " +
    `10,800 s ${TABLE} ${ROW} ${EXPLAIN}`,
  ],
  "an external policy without external frontends": [
    { external: "local" },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 1 ${TABLE} ${ROW} ${EXPLAIN}`,
  ],
  "a change that waits": [
    { effect: { state: "waiting", revision: 1, syncedAtMs: undefined, orEarlier: false } },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 1 Not in effect yet: its last change waits. ${TABLE} ${ROW} ${EXPLAIN}`,
    "waiting",
  ],
  "several problems": [
    { problems: ["One.", "Two."], internal: "reject" },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 1 One. Two. Traffic to the cluster IP is rejected: no usable endpoint. ` +
    `${TABLE} ${ROW} ${EXPLAIN}`,
    "warning",
  ],
  "an address of another service": [
    { served: false },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 1 Not served: another service has its cluster IP. ${TABLE} ${ROW} ` +
    EXPLAIN,
    "bad",
  ],
  "no endpoints": [
    { usedEndpoints: 0, endpoints: 0, shownEndpoints: [] },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 0 / 0 It has no endpoints. ${EXPLAIN}`,
  ],
  "more endpoints than are shown": [
    { usedEndpoints: 1_199, endpoints: 1_201 },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1,199 / 1,201 ${TABLE} ${ROW} and 1,200 more: look at this service alone ` +
    EXPLAIN,
  ],
  "endpoints in and out, here and at no node": [
    {
      endpoints: 2,
      shownEndpoints: [
        { ...ENDPOINT, used: false, node: "", zone: "", reason: "not ready" },
        { ...ENDPOINT, onThisNode: true },
      ],
    },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 2 ${TABLE} out 10.1.0.1:8080 – – not ready in 10.1.0.1:8080 node-1 ` +
    `this node a ready ${EXPLAIN}`,
  ],
  "shares of endpoints": [
    { endpoints: 2, shownEndpoints: [{ ...ENDPOINT, shares: { cluster: 0.25 } }, { ...ENDPOINT, used: false }] },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 2 Use Endpoint Node Zone Share Why in 10.1.0.1:8080 node-1 a 25 % ready ` +
    `out 10.1.0.1:8080 node-1 a – ready ${EXPLAIN}`,
  ],
  "counted traffic": [
    {
      traffic: {
        ...{ connections: 1_200, packets: 1, bytes: 3_000, perSecond: { connections: 2, bytes: 1_500 } },
        failures: { "no-endpoints": 4 },
      },
      shownEndpoints: [
        { ...ENDPOINT, traffic: { connections: 9, bytes: 9, perSecond: { connections: 3, bytes: 4 } } },
      ],
    },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 1 2 conn/s · 1.5 kB/s 1,200 connections, 1 packet, 3,000 bytes so far · ` +
    "failed packets: no-endpoints 4 Use Endpoint Node Zone Conn/s Bytes/s Why in 10.1.0.1:8080 node-1 a 3 4 ready " +
    EXPLAIN,
  ],
  "counted connections": [
    {
      traffic: { connections: 1, perSecond: { connections: 0 } },
      shownEndpoints: [{ ...ENDPOINT, traffic: { connections: 9, perSecond: { connections: 3 } } }],
    },
    `${HEAD} ClusterIP IPv4 10.0.0.1:80 TCP 1 / 1 0 conn/s 1 connection so far Use Endpoint Node Zone Conn/s Why in ` +
    `10.1.0.1:8080 node-1 a 3 ready ${EXPLAIN}`,
  ],
};

for (const [name, [changes, text, tone]] of Object.entries(SERVICES)) {
  Deno.test(`the list of services shows ${name}`, () => {
    const part = servicesPart(pageOf([{ ...SERVICE, ...changes }]), WHOLE);
    assert.equal(textOf(part), text);
    if (tone !== undefined) assert.deepEqual(valuesOf(part, "class", "details"), [`service ${tone}`]);
  });
}

Deno.test("links keep the rest of the view", () => {
  const view: View = { q: "web", ns: "default", show: "attention", page: 2, to: "10.0.0.9:1", from: "pod" };
  const part = servicesPart(pageOf([{ ...SERVICE, endpoints: 9 }], { total: 60, page: 2, pages: 3 }), view);
  const rest = "/?q=web&ns=default&show=attention";
  assert.deepEqual(valuesOf(part, "href", "a"), [
    "/?q=default%2Fweb%3Ahttp",
    `${rest}&page=2&to=10.0.0.1%3A80&from=pod`,
    `${rest}&to=10.0.0.9%3A1&from=pod`,
    `${rest}&page=3&to=10.0.0.9%3A1&from=pod`,
  ]);
  assert.equal(addressOf(WHOLE), "/");
  assert.deepEqual(readView(new URL(addressOf(view), "http://node").searchParams), view);
});

Deno.test("pages link to those before and after them, and one page to none", () => {
  const linksOf = (page: number, pages: number) => {
    const part = servicesPart(pageOf([SERVICE], { page, pages }), { ...WHOLE, page });
    return [valuesOf(part, "rel", "a"), / (\d+ of \d+) /.exec(textOf(part))?.[1]];
  };
  assert.deepEqual([linksOf(1, 1), linksOf(1, 2), linksOf(2, 2), linksOf(2, 3)], [
    [[], undefined],
    [["next"], "1 of 2"],
    [["prev"], "2 of 2"],
    [["prev", "next"], "2 of 3"],
  ]);
});

Deno.test("an empty list says for which selection", () => {
  const textFor = (view: Partial<View>) => textOf(servicesPart(pageOf([]), { ...WHOLE, ...view }));
  assert.equal(textFor({}), "No service.");
  assert.equal(textFor({ ns: "a" }), "No service in namespace a.");
  assert.equal(textFor({ show: "attention" }), "No service needing attention.");
  assert.equal(textFor({ q: "x", ns: "a" }), "No service with “x” in its name in namespace a.");
});

Deno.test("the view is read from the address, and what is invalid is ignored", () => {
  const read = (query: string) => readView(new URLSearchParams(query));
  assert.deepEqual(read(""), WHOLE);
  const view = { q: "web", ns: "a", show: "attention", page: 2, to: "b", from: "c" };
  assert.deepEqual(read("q= WEB &ns=A&show=attention&page=2&to=B&from=C"), view);
  for (const page of ["0", "-1", "1.5", "x", "1e99"]) assert.equal(read(`page=${page}`).page, 1, page);
  assert.equal(read("show=all").show, "");
  assert.equal(read(`q=${"x".repeat(300)}`).q.length, 200);
});

Deno.test("the namespaces include the selected one", () => {
  const optionsFor = (ns: string) => {
    const { markup } = namespaceOptions(["a", "b"], { ...WHOLE, ns });
    return [...markup.matchAll(/<option(| selected)(?: value="")?>([^<]*)</g)].map(([, mark, name]) => name! + mark);
  };
  assert.deepEqual(optionsFor(""), ["all namespaces", "a", "b"]);
  assert.deepEqual(optionsFor("b"), ["all namespaces", "a", "b selected"]);
  assert.deepEqual(optionsFor("c"), ["all namespaces", "a", "b", "c selected"]);
});

/** The bars of the meter of a service: position, width, and whether they stand for endpoints in use. */
function meterOf(usedEndpoints: number, endpoints: number): readonly string[] {
  const part = servicesPart(pageOf([{ ...SERVICE, usedEndpoints, endpoints }]), WHOLE);
  const [xs, widths, kinds] = ["x", "width", "class"].map((name) => valuesOf(part, name, "rect"));
  return xs!.map((x, i) => `${x} ${widths![i]} ${kinds![i]}`);
}

Deno.test("the meter has a segment for each of few endpoints, and the share of many", () => {
  assert.deepEqual(meterOf(0, 0), []);
  assert.deepEqual(meterOf(1, 1), ["0 48 lit"]);
  assert.deepEqual(meterOf(1, 2), ["0 23 lit", "25 23 unlit"]);
  assert.equal(meterOf(8, 8).length, 8);
  assert.deepEqual(meterOf(3, 9), ["0 48 unlit", "0 16 lit"]);
  // One of many is visible.
  assert.deepEqual([meterOf(0, 900), meterOf(1, 900), meterOf(899, 900), meterOf(900, 900)].map((bars) => bars[1]), [
    "0 0 lit",
    "0 1 lit",
    "0 47 lit",
    "0 48 lit",
  ]);
});

const EXPLANATION: Explanation = {
  destination: { family: "IPv4", address: "10.0.0.1", port: 80, protocol: "tcp" },
  ...{ mode: "nftables", node: { name: "here", zone: "a", address: "192.168.1.1" }, remarks: ["A remark."] },
  service: {
    ...{
      name: "default/web:http",
      type: "ClusterIP",
      frontend: "clusterIP",
      frontendText: "cluster IP 10.0.0.1:80/TCP",
    },
    policies: [{ name: "internalTrafficPolicy", value: "Cluster", effect: "all endpoints may be used" }],
    topology: "any",
    endpoints: [ENDPOINT, { ...ENDPOINT, target: "10.1.0.2:8080", used: false, reason: "not ready" }],
    rules: {
      from: "rendering",
      since: undefined,
      problem: undefined,
      parts: [{ place: "map a", lines: ["one", "two"] }, { place: "map a", lines: ["three"] }, {
        place: "b",
        lines: ["x"],
      }],
    },
  },
  outcomes: [
    {
      ...{ from: { origin: "pod", address: undefined }, fate: "balanced", reason: "endpoints", policy: "cluster" },
      ...{ endpoints: ["10.1.0.1:8080"], onlySources: ["192.0.2.0/24"], hairpin: [] },
      masquerade: undefined,
    },
    {
      ...{
        from: { origin: "outside", address: undefined },
        fate: "dropped",
        reason: "no-local-endpoints",
        policy: "local",
        endpoints: [],
      },
      ...{ onlySources: undefined, masquerade: undefined, hairpin: [] },
    },
  ],
};

/** The explanation of a destination, and the clients of the questions that were asked. */
async function explained(to: string, from = "", explanation = EXPLANATION, destinations = 1) {
  const asked: unknown[] = [];
  const part = await explanationPart({ to, from }, {
    explain: (question) => {
      asked.push(question.from);
      return Promise.resolve(explanation);
    },
    resolve: (_, client) =>
      Promise.resolve(
        Array.from({ length: destinations }, () => ({ ...explanation.destination, from: client }) as never),
      ),
  });
  return { part, asked };
}

Deno.test("an explanation has the service, each outcome, the policies, the endpoints, and the rules by their place", async () => {
  const { part } = await explained("10.0.0.1:80");
  assert.match(
    textOf(part),
    new RegExp(
      "^10\\.0\\.0\\.1:80/TCP is cluster IP 10\\.0\\.0\\.1:80/TCP of default/web:http \\(ClusterIP\\) A remark\\. " +
        "From a pod of this node: .* only from 192\\.0\\.2\\.0/24; other sources are dropped From outside: .* " +
        "internalTrafficPolicy Cluster all endpoints may be used 1 of 2 endpoints in use Use Endpoint Node Zone Why " +
        "out 10\\.1\\.0\\.2:8080 node-1 a not ready in 10\\.1\\.0\\.1:8080 .* Rules \\(as a proxy would write them\\) ",
    ),
  );
  assert.deepEqual(valuesOf(part, "class", "li"), ["good", "bad"]);
  assert.equal(/<pre>([^<]*)</.exec(part.markup)![1], "map a\n  one\n  two\n  three\nb\n  x");
});

Deno.test("an explanation without a service, endpoints or rules says that", async () => {
  const { part: none } = await explained("10.0.0.1:80", "", { ...EXPLANATION, service: undefined });
  assert.match(textOf(none), /^10\.0\.0\.1:80\/TCP no service has this address and port A remark\. From/);
  const service = { ...EXPLANATION.service!, endpoints: [], rules: undefined };
  const { part: empty } = await explained("10.0.0.1:80", "", { ...EXPLANATION, service });
  assert.match(textOf(empty), /0 of 0 endpoints in use$/);
  const refused = { ...EXPLANATION.service!.rules!, problem: "they are refused" };
  const { part } = await explained("10.0.0.1:80", "", {
    ...EXPLANATION,
    service: { ...service, rules: refused },
  });
  assert.match(textOf(part), /not in effect: they are refused/);
});

Deno.test("rules say since when they are in effect, or why they are not", async () => {
  const since = { state: "in effect", revision: 7, syncedAtMs: 0, orEarlier: false } as const;
  const table: readonly (readonly [ExplainedRules["since"], string])[] = [
    [undefined, "as a proxy would write them"],
    [since, "in effect since the sync of revision 7, 1970-01-01T00:00:00.000Z"],
    [
      { ...since, orEarlier: true },
      "in effect since the sync of revision 7 or an earlier one, 1970-01-01T00:00:00.000Z",
    ],
    [{ ...since, syncedAtMs: undefined }, "in effect"],
    [{ ...since, state: "waiting" }, "pending; the sync that writes them has not finished"],
    [{ ...since, state: "refused", refusal: "nft: no" }, "not in effect: the kernel refuses them: nft: no"],
  ];
  for (const [since, text] of table) {
    const rules = { ...EXPLANATION.service!.rules!, from: "running proxy", since } as const;
    const { part } = await explained("10.0.0.1:80", "", {
      ...EXPLANATION,
      service: { ...EXPLANATION.service!, rules },
    });
    assert.equal(/<summary>Rules \(([^<]*)\)</.exec(part.markup)![1], text);
  }
});

Deno.test("a name is explained for its first four destinations, and the client is that of the form", async () => {
  assert.equal((await explained("")).part.markup, "");
  assert.match((await explained("10.0.0.1:99999")).part.markup, /^<p class="note">.*99999/);
  const { part, asked } = await explained("web", "", EXPLANATION, 4);
  assert.deepEqual([valuesOf(part, "class", "article").length, asked], [4, [
    undefined,
    undefined,
    undefined,
    undefined,
  ]]);
  const more = await explained("web", "pod", EXPLANATION, 6);
  assert.deepEqual(more.asked, ["pod", "pod", "pod", "pod"]);
  assert.match(textOf(more.part), /and 2 more destinations: add a port to the name$/);
  assert.deepEqual((await explained("10.0.0.1:80", "outside")).asked.length, 1);
});

Deno.test("an explanation shows 50 endpoints, those out of use first", async () => {
  const endpoints = Array.from({ length: 60 }, (_, i) => ({ ...ENDPOINT, target: `${i}`, used: i !== 59 }));
  const { part } = await explained("10.0.0.1:80", "", {
    ...EXPLANATION,
    service: { ...EXPLANATION.service!, endpoints },
  });
  const rows = valuesOf(part, "class", "tr");
  assert.deepEqual([rows.length, rows[0], rows[1]], [50, "out", "in"]);
  assert.match(textOf(part), /59 of 60 endpoints in use/);
});

/** The bars of the chart: kind, position, height upwards, and height downwards. */
function barsOf(syncs: readonly SyncSummary[]): readonly string[] {
  const { markup } = syncChart(syncs);
  return [...markup.matchAll(/<g class="(\w+)">([^]*?)<\/g>/g)].map(([, kind, bar]) => {
    const [x] = valuesOf({ markup: bar! }, "x", "rect").slice(1);
    const [, up, down] = valuesOf({ markup: bar! }, "height", "rect");
    return `${kind} ${x} ${up} ${down}`;
  });
}

Deno.test("a sync's bar shows its kind, its duration and its size, the newest at the right", () => {
  const syncs = [
    fakeSync({ durationMs: 1000, full: false, counts: { chains_written: 9 } }),
    fakeSync({ durationMs: 10 }),
    fakeSync({ durationMs: 0, problems: 2 }),
    fakeSync({ durationMs: 1000, ok: false, problems: 1 }),
  ];
  const bars = barsOf(syncs);
  assert.deepEqual(bars.map((bar) => bar.split(" ")[0]), ["delta", "full", "partly", "failed"]);
  assert.deepEqual(bars.map((bar) => bar.split(" ")[1]), ["310", "300", "290", "280"]);
  const heights = bars.map((bar) => Number(bar.split(" ")[2]));
  assert.deepEqual([heights[0], heights[2], heights[3]], [44, 2, 44]);
  assert.ok(heights[1]! > 2 && heights[1]! < 44);
  // Both scales go up to 10 at least.
  assert.deepEqual(barsOf([fakeSync({ durationMs: 10, counts: { chains_written: 10 } })]), ["full 310 44 18"]);
  assert.deepEqual(bars.map((bar) => bar.split(" ")[3]), ["17.4", "0", "0", "0"]);
  assert.equal(barsOf(Array.from({ length: 40 }, () => fakeSync())).length, 32);
  const chart = syncChart(syncs);
  assert.match(textOf(chart), /full sync changes with problems failed written up to 1 s, 9 written$/);
  assert.doesNotMatch(textOf(syncChart([fakeSync()])), /changes|with problems|failed/);
  assert.match(valuesOf(chart, "aria-label", "svg")[0]!, /^The last 4 syncs; the newest took 1 s$/);
  const titles = [...chart.markup.matchAll(/<title>([^<]*)</g)].map(([, title]) => title!.replace(/^.*?, /, ""));
  assert.equal(titles[1], "revision 1, full sync: 10 ms, nothing to write, ok");
  assert.match(titles[2]!, /, 2 problems$/);
  assert.match(titles[3]!, /, failed$/);
});

Deno.test("each label of the time axis has its column, and labels keep their distance", () => {
  const chart = syncChart(Array.from({ length: 32 }, (_, i) => fakeSync({ endedAtMs: 100_000 - i })));
  assert.deepEqual(valuesOf(chart, "class", "span").filter((name) => name.startsWith("at-")), [
    "at-8",
    "at-20",
    "at-32",
  ]);
  assert.match(STYLE, /\.at-7 \{ grid-column: 7 \/ span 9; \}\n\.at-8 \{ grid-column: 1 \/ 9; text-align: right; \}/);
  assert.match(STYLE, /\.at-32 \{ grid-column: 25 \/ 33;/);
});
