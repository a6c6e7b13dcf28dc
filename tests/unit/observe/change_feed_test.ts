/** The feed of changes: what an operator reads about services, their effect, the link and problems. */
import assert from "node:assert/strict";
import { eventText } from "../../../answers/status/mod.ts";
import { type Family, type ServicePort, servicePortKey, type SyncReport } from "../../../core/model/mod.ts";
import type { PlanChanges } from "../../../core/planning/mod.ts";
import { createLedgers } from "../../../core/channel/mod.ts";
import { createChangeFeed } from "../../../observe/change_feed.ts";
import { createEventLog } from "../../../observe/process_record.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";

const targets = (count: number) => Array.from({ length: count }, (_, i) => `10.1.0.${i}:8080`);
const port = (name: string, count: number, changes: Partial<ServicePort> = {}) =>
  fakeServicePort(name, { clusterEndpoints: targets(count), ...changes });
const keyOf = ({ name, protocol }: ServicePort) => servicePortKey(name, protocol);

/** A plan that turns the first service port of each pair into the second one. */
function plan(...pairs: readonly (readonly [ServicePort | undefined, ServicePort | undefined])[]): PlanChanges {
  return {
    set: new Map(pairs.flatMap(([, after]) => after ? [[keyOf(after), after] as const] : [])),
    deleted: pairs.flatMap(([before, after]) => before && !after ? [keyOf(before)] : []),
    replaced: new Map(pairs.flatMap(([before]) => before ? [[keyOf(before), before] as const] : [])),
  };
}

function setUp() {
  const clock = createFakeClock();
  const ledgers = createLedgers(clock), feed = createChangeFeed(clock, ledgers);
  let revision = 0;
  return {
    clock,
    feed,
    planned: (changes: PlanChanges, family: Family = "IPv4", isDualStack = false) =>
      feed.planned(family, changes, { first: undefined, isDualStack }),
    sent: (family: Family = "IPv4") => ledgers[family].sent(++revision, revision),
    reported(given: Partial<SyncReport> = {}) {
      const report: SyncReport = {
        family: "IPv4",
        revision,
        ok: true,
        full: false,
        endedAtMs: clock.now(),
        durationMs: 1,
        problems: [],
        counts: {},
        ...given,
      };
      ledgers[report.family].reported(report);
      feed.reported(report);
    },
    lines: () =>
      feed.read().events.map((event) =>
        `${event.subject}${event.family === undefined ? "" : ` (${event.family})`}: ${eventText(event)}`
      ),
  };
}

Deno.test("a change of endpoints is shown with its effect and the time until it", () => {
  const { clock, feed, planned, sent, reported, lines } = setUp();
  planned(plan([port("shop/cart:http", 2), port("shop/cart:http", 0)]));
  assert.deepEqual(lines(), ["shop/cart: 2 → 0 endpoints, not in effect yet"]);
  sent();
  clock.advance(9);
  reported({ ok: false });
  assert.deepEqual(lines(), ["shop/cart: 2 → 0 endpoints, not in effect yet"]);
  clock.advance(3);
  const { last } = feed.read();
  reported();
  assert.deepEqual(lines(), ["shop/cart: 2 → 0 endpoints, in effect after 12 ms"]);
  assert.deepEqual(feed.read(last).events.map(({ id, endpoints }) => [id, endpoints]), [[1, { before: 2, after: 0 }]]);
  assert.deepEqual(feed.read(feed.read().last).events, []);
});

Deno.test("each kind of change of a service has its words", () => {
  const { planned, lines } = setUp();
  const web = port("a/web:http", 3);
  planned(plan(
    [undefined, port("a/new:http", 1)],
    [port("a/old:http", 1), undefined],
    [web, { ...web, clusterEndpoints: [...targets(2), "10.9.0.1:8080"] }],
    [port("a/db:sql", 1), { ...port("a/db:sql", 1), affinitySeconds: 60 }],
  ));
  assert.deepEqual(lines().map((line) => line.replace(", not in effect yet", "")), [
    "a/new: added, 1 endpoint",
    "a/web: 1 of 3 endpoints replaced",
    "a/db: settings changed",
    "a/old: removed",
  ]);
});

Deno.test("ports and families that change alike are one event, which takes as long as the slower family", () => {
  const { clock, planned, sent, reported, lines } = setUp();
  const change = plan(
    [port("a/web:http", 2), port("a/web:http", 1)],
    [port("a/web:tls", 2), port("a/web:tls", 1)],
    [port("a/dns:udp", 2), port("a/dns:udp", 1)],
    [port("a/dns:tcp", 3), port("a/dns:tcp", 1)],
  );
  planned(change, "IPv4", true);
  planned(plan([port("a/web:http", 2), port("a/web:http", 1)]), "IPv6", true);
  planned(plan([port("a/dns:udp", 2), port("a/dns:udp", 1)]), "IPv6", true);
  sent("IPv4");
  sent("IPv6");
  clock.advance(10);
  reported({ family: "IPv4" });
  clock.advance(10);
  reported({ family: "IPv6" });
  assert.deepEqual(lines(), [
    "a/web (IPv4): 2 → 1 endpoint, in effect after 10 ms",
    "a/dns:udp: 2 → 1 endpoint, in effect after 20 ms",
    "a/dns:tcp (IPv4): 3 → 1 endpoint, in effect after 10 ms",
    "a/web:http (IPv6): 2 → 1 endpoint, in effect after 20 ms".replace(":http", ""),
  ]);
});

Deno.test("a change that the kernel refuses says so", () => {
  const { planned, sent, reported, lines } = setUp();
  planned(plan([port("a/web:http", 2), port("a/web:http", 1)], [port("a/db:sql", 2), port("a/db:sql", 1)]));
  sent();
  reported({ problems: [{ code: "rules-refused", servicePort: "a/web:http", message: "nft: no" }] });
  assert.deepEqual(lines(), [
    "a/web: 2 → 1 endpoint, refused by the kernel",
    "a/db: 2 → 1 endpoint, in effect after 0 ms",
  ]);
});

Deno.test("a change that is reverted before it was sent waits for nothing", () => {
  const { planned, sent, reported, lines } = setUp();
  planned(plan([port("a/web:http", 2), port("a/web:http", 0)]));
  planned(plan([port("a/web:http", 0), port("a/web:http", 1)]));
  planned(plan([port("a/web:http", 1), port("a/web:http", 2)]));
  sent();
  reported();
  assert.deepEqual(lines(), [
    "a/web: 2 → 0 endpoints, overtaken by a later change",
    "a/web: 0 → 1 endpoint, overtaken by a later change",
  ]);
});

Deno.test("a change after a reverted one is shown from what the kernel has, and is the only one that waits", () => {
  const { clock, planned, sent, reported, lines } = setUp();
  planned(plan([port("a/web:http", 2), port("a/web:http", 0)]));
  planned(plan([port("a/web:http", 0), port("a/web:http", 2)]));
  planned(plan([port("a/web:http", 2), port("a/web:http", 3)]));
  planned(plan([port("a/web:http", 3), port("a/web:http", 4)]));
  sent();
  clock.advance(7);
  reported();
  assert.deepEqual(lines(), [
    "a/web: 2 → 0 endpoints, overtaken by a later change",
    "a/web: 2 → 3 endpoints, overtaken by a later change",
    "a/web: 3 → 4 endpoints, in effect after 7 ms",
  ]);
});

Deno.test("a change in one family does not join a reverted one, or another one, of the other family", () => {
  const { planned, sent, reported, lines } = setUp();
  const less = plan([port("a/web:http", 2), port("a/web:http", 1)]);
  planned(less, "IPv4", true);
  planned(plan([port("a/web:http", 1), port("a/web:http", 2)]), "IPv4", true);
  planned(less, "IPv6", true);
  planned(plan([port("a/web:http", 2), port("a/web:http", 0)]), "IPv4", true);
  for (const family of ["IPv4", "IPv6"] as const) {
    sent(family);
    reported({ family });
  }
  assert.deepEqual(lines(), [
    "a/web (IPv4): 2 → 1 endpoint, overtaken by a later change",
    "a/web (IPv6): 2 → 1 endpoint, in effect after 0 ms",
    "a/web (IPv4): 2 → 0 endpoints, in effect after 0 ms",
  ]);
});

Deno.test("many changes, and again many before they are sent, are two events, of which the first is overtaken", () => {
  const { planned, sent, reported, lines } = setUp();
  const many = (count: number) =>
    plan(
      ...Array.from({ length: 100 }, (_, i) => [port(`a/s${i}:http`, count), port(`a/s${i}:http`, count + 1)] as const),
    );
  for (const count of [1, 2]) planned(many(count));
  sent();
  reported();
  assert.deepEqual(
    lines().filter((line) => line.includes("more service ports")).map((line) => line.replace(/\d+ more/, "more")),
    [
      "other services: more service ports changed, overtaken by a later change",
      "other services: more service ports changed, in effect after 0 ms",
    ],
  );
});

Deno.test("a change of one family joins that of the other one only before that is sent", () => {
  const { planned, sent, reported, lines } = setUp();
  const change = plan([port("a/web:http", 2), port("a/web:http", 1)]);
  planned(change, "IPv4", true);
  sent("IPv4");
  planned(change, "IPv6", true);
  assert.deepEqual(lines(), [
    "a/web (IPv4): 2 → 1 endpoint, not in effect yet",
    "a/web (IPv6): 2 → 1 endpoint, not in effect yet",
  ]);
  sent("IPv6");
  reported({ family: "IPv6" });
  assert.match(lines()[0]!, /not in effect yet$/);
});

Deno.test("the first plan is one event, and many changes at once are few", () => {
  const { feed, planned, sent, reported, lines } = setUp();
  const many = plan(...Array.from({ length: 10_000 }, (_, i) => [undefined, port(`a/s-${i}:http`, 1)] as const));
  feed.planned("IPv4", many, { first: 10_000, isDualStack: false });
  sent();
  reported();
  assert.deepEqual(lines(), ["all services: 10,000 service ports read from the cluster, in effect after 0 ms"]);
  planned(many);
  assert.equal(lines().length, 26);
  assert.equal(lines().at(-1), "other services: 9,976 more service ports changed, not in effect yet");
});

Deno.test("the feed keeps a bounded number of events", () => {
  const { planned, sent, reported, feed } = setUp();
  for (let i = 0; i < 300; i++) {
    planned(plan([port("a/web:http", i), port("a/web:http", i + 1)]));
    sent();
    reported();
  }
  const { events, last } = feed.read();
  assert.deepEqual([events.length, events.at(-1)!.id, last], [256, 300, 600]);
});

Deno.test("repairs, the link and problems are events; problems of one kind at once are one", () => {
  const { clock, feed, reported, lines } = setUp();
  reported({ counts: { drift_repaired: 3 } });
  const link = { server: "https://api:6443", lastError: "refused", sinceMs: 0, lastReceivedMs: 0, lastErrorMs: 0 };
  feed.linkChanged({ ...link, state: "disconnected", retryAtMs: 5 });
  const problem = (code: "object-invalid" | "source-unreachable", subject: string) =>
    ({ code, subject, detail: "no port" }) as const;
  feed.problemChanged({ type: "raised", problem: problem("source-unreachable", "services") });
  feed.linkChanged({ ...link, state: "connected", retryAtMs: undefined });
  for (const name of ["a", "b", "c"]) {
    feed.problemChanged({ type: "raised", problem: problem("object-invalid", `Service ${name}`) });
  }
  clock.advance(2000);
  feed.problemChanged({ type: "raised", problem: problem("object-invalid", "Service d") });
  feed.problemChanged({ type: "solved", problem: problem("object-invalid", "Service d") });
  assert.deepEqual(lines(), [
    "IPv4: 3 changes by other programs repaired",
    "https://api:6443: connection lost: refused",
    "https://api:6443: connected",
    "Service a and 2 more: parts of an object cannot be used and are ignored: no port",
    "Service d: parts of an object cannot be used and are ignored: no port",
    "Service d: solved: parts of an object cannot be used and are ignored",
  ]);
});

Deno.test("after a long failure, the changes that are still kept take effect", () => {
  const { clock, planned, sent, reported, lines } = setUp();
  for (let i = 0; i < 1000; i++) {
    planned(plan([port(`a/s-${i}:http`, 1), port(`a/s-${i}:http`, 2)]));
    if (i % 2 === 0) sent();
    reported({ ok: false });
  }
  clock.advance(5);
  sent();
  reported();
  assert.deepEqual([...new Set(lines().map((line) => line.replace(/^.*: /, "")))], [
    "1 → 2 endpoints, in effect after 5 ms",
  ]);
});

Deno.test("of a service that changes during a long failure, changes that are no longer told apart are overtaken", () => {
  const { planned, sent, reported, lines } = setUp();
  for (let i = 0; i < 150; i++) {
    planned(plan([port("a/web:http", i), port("a/web:http", i + 1)]));
    sent();
    reported({ ok: false });
  }
  reported();
  const effects = lines().map((line) => line.replace(/^.*endpoints?, /, ""));
  assert.equal(effects[0], "overtaken by a later change");
  assert.equal(effects.at(-1), "in effect after 0 ms");
  assert.ok(!effects.includes("not in effect yet"));
});

Deno.test("what the next run of the process finds waiting is overtaken, and the change of the configuration is an event", () => {
  const clock = createFakeClock(), log = createEventLog(clock);
  const changes = plan([undefined, port("shop/cart:http", 1)]);
  createChangeFeed(clock, createLedgers(clock), log).planned("IPv4", changes, { first: undefined, isDualStack: false });
  log.startRun();
  const next = createChangeFeed(clock, createLedgers(clock), log).read();
  assert.deepEqual(next.events.map(({ effect, text }) => effect ?? text), ["overtaken", "changed file applied"]);
});

Deno.test("a change that was overtaken in one family stays so when the other one refuses it", () => {
  const { planned, sent, reported, feed } = setUp();
  const change = plan([port("shop/cart:http", 2), port("shop/cart:http", 3)]);
  planned(change, "IPv4", true);
  planned(change, "IPv6", true);
  sent("IPv6");
  planned(plan([port("shop/cart:http", 3), port("shop/cart:http", 4)]), "IPv4", true);
  reported({ family: "IPv6", problems: [{ code: "rules-refused", servicePort: "shop/cart:http", message: "no" }] });
  assert.deepEqual(feed.read().events.map(({ effect }) => effect), ["overtaken", "waiting"]);
});

Deno.test("a service without endpoints is a warning", () => {
  const { planned, feed } = setUp();
  planned(plan([port("shop/cart:http", 2), port("shop/cart:http", 0)]));
  planned(plan([port("shop/web:http", 0), port("shop/web:http", 2)]));
  assert.deepEqual(feed.read().events.map(({ tone }) => tone), ["warning", "idle"]);
});
