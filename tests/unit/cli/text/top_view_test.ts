import assert from "node:assert/strict";
import type { BrowsedService } from "../../../../answers/mod.ts";
import { PLAIN, textOf } from "../../../../cli/text/lines.ts";
import { statusLines } from "../../../../cli/text/status_text.ts";
import { serviceRows } from "../../../../cli/text/tables.ts";
import {
  afterKey,
  FIRST_VIEW,
  roomForServices,
  topLines,
  topScreen,
  type TopView,
} from "../../../../cli/text/top_text.ts";
import { fakeView } from "../../../fakes/proxy_status.ts";

const press = (keys: readonly string[], view: TopView = FIRST_VIEW, rows = 10, total = 35) =>
  keys.reduce<TopView | undefined>((view, key) => view && afterKey(view, key, rows, { total }), view);

const UP = "\x1b[A", DOWN = "\x1b[B", PAGE_UP = "\x1b[5~", PAGE_DOWN = "\x1b[6~", ESCAPE = "\x1b";

Deno.test("keys scroll within the services", () => {
  const offset = (...keys: readonly string[]) => press(keys)?.offset;
  assert.deepEqual([offset(DOWN, DOWN), offset(DOWN, UP, UP), offset("j", "j", "k")], [2, 0, 1]);
  assert.deepEqual([offset(PAGE_DOWN), offset(" ", " ", " ", " "), offset(PAGE_DOWN, PAGE_UP)], [10, 25, 0]);
  assert.deepEqual([offset("G"), offset("G", "g")], [25, 0]);
  assert.equal(press([PAGE_DOWN], FIRST_VIEW, 10, 3)?.offset, 0);
});

Deno.test("a filter is typed, kept and removed, and its letters are no commands", () => {
  const typed = press(["/", "Q", "s", "x", "\x7f"]);
  assert.deepEqual([typed?.search, typed?.isTyping, typed?.order], ["qs", true, "attention"]);
  const kept = press(["\r"], typed);
  assert.deepEqual([kept?.search, kept?.isTyping], ["qs", false]);
  assert.equal(press([ESCAPE], typed)?.search, "");
  assert.equal(press([ESCAPE], kept)?.search, "");
  assert.equal(press(["/", "\x03"]), undefined);
});

Deno.test("keys sort, show only services that need attention, and quit", () => {
  assert.deepEqual(["s", "ss", "sss", "ssss"].map((keys) => press([...keys])?.order), [
    "name",
    "endpoints",
    "changed",
    "attention",
  ]);
  assert.deepEqual([press(["G", "s"])?.offset, press(["b"])?.attention, press(["b", "b"])?.attention], [
    0,
    true,
    false,
  ]);
  for (const key of ["q", "\x03", "\x04"]) assert.equal(press([key]), undefined);
});

const service = (name: string, changes: Partial<BrowsedService> = {}): BrowsedService => ({
  ...{ name, family: "IPv4", type: "ClusterIP", protocol: "tcp", clusterIP: "10.0.0.1", port: 80, nodePort: 0 },
  ...{ externalIPs: [], loadBalancerIPs: [], internal: "cluster", external: "cluster", affinitySeconds: 0 },
  ...{ usedEndpoints: 2, endpoints: 3, problems: [], served: true, effect: undefined, shownEndpoints: [] },
  ...changes,
});
const effect = { revision: 1, syncedAtMs: 0, orEarlier: false };

Deno.test("the columns of services align, and each says whether it is in effect", () => {
  const rows = serviceRows([
    service("a/b:http"),
    service(`shop/${"long-".repeat(20)}`, { usedEndpoints: 100, endpoints: 100 }),
    service("a/c", { effect: { ...effect, state: "waiting" } }),
    service("a/d", { effect: { ...effect, state: "refused", refusal: "nft: no" } }),
    service("a/e", { usedEndpoints: 0, internal: "reject" }),
  ], Infinity).map((line) => textOf(line, PLAIN));
  const [heading] = rows;
  const column = heading!.indexOf("STATE");
  assert.deepEqual(rows.map((row) => row.slice(column).split(":")[0]), [
    "STATE",
    "in effect",
    "in effect",
    "not in effect yet",
    "Not in effect",
    "Traffic to the cluster IP is rejected",
  ]);
  const end = heading!.indexOf("ENDPOINTS") + "ENDPOINTS".length;
  assert.ok(rows.every((row) => row[end - 1] !== " " && row[end] === " "), rows.join("\n"));
});

Deno.test("a narrow terminal shows the start of long names, and the state", () => {
  const services = [service(`${"n".repeat(63)}/web`, { usedEndpoints: 0, internal: "reject" }), service("a/b")];
  for (const columns of [40, 80]) {
    const rows = serviceRows(services, columns).map((line) => textOf(line, { columns, colour: false }));
    assert.ok(rows.every((row) => row.length <= columns), rows.join("\n"));
    assert.match(rows[1]!, / n{11,}… +IPv4 +0\/3 +Traf/, String(columns));
    assert.match(rows[2]!, / a\/b +IPv4 +2\/3 +in e/, String(columns));
  }
  const [, long] = serviceRows([service("n/".padEnd(60, "x"))], 1).map((line) => textOf(line, PLAIN));
  assert.match(long!, /^ {2}n\/x{9}… /);
});

const STATUS = fakeView();
const NONE = { refused: 0, unserved: 0, limited: 0, empty: 0 };

Deno.test("a screen has one line for each row of the terminal, the last one with the keys", () => {
  for (const rows of [4, 9, 30]) {
    const layout = { columns: 80, rows, colour: false };
    const room = roomForServices({ status: STATUS, trouble: undefined }, layout);
    const shown = Array.from({ length: room }, (_, i) => service(`a/s-${i}`));
    const page = { total: 99, page: 1, pages: 9, services: shown, attention: NONE, namespaces: [] };
    const lines = topScreen({ status: STATUS, services: page, trouble: undefined }, FIRST_VIEW, layout);
    assert.equal(lines.length, rows);
    assert.match(lines.at(-1)!, /^q quit/);
    if (rows === 30) assert.match(lines.at(-2)!, new RegExp(`a/s-${room - 1} `));
  }
});

Deno.test("services can be sorted by traffic only if it is counted", () => {
  const orders = (countsTraffic: boolean) => {
    const seen = new Set<TopView["order"]>();
    let view = FIRST_VIEW;
    for (let i = 0; i < 6; i++) {
      seen.add(view.order);
      view = afterKey(view, "s", 10, { total: 35, ...(countsTraffic && { countsTraffic }) })!;
    }
    return seen;
  };
  assert.ok(orders(true).has("traffic"));
  assert.ok(!orders(false).has("traffic"));
});

Deno.test("rates have columns of their own, only if traffic is counted", () => {
  const perSecond = { connections: 12.5, packets: 1, bytes: 3_400_000 };
  const traffic = { connections: 1, packets: 1, bytes: 1, perSecond, failures: {} };
  const lines = (services: readonly BrowsedService[]) =>
    serviceRows(services, Infinity).map((line) => textOf(line, PLAIN));
  const [headings, row] = lines([service("a/b", { traffic })]);
  assert.match(lines([service("a/b")])[0]!, /ENDPOINTS +STATE$/);
  assert.match(headings!, /ENDPOINTS +CONN\/S +BYTES\/S +STATE$/);
  assert.match(row!, / 12\.5 +3\.4M +in effect$/);
  const connectionsOnly = { connections: 1, perSecond: { connections: 12.5 } };
  assert.match(lines([service("a/b", { traffic: connectionsOnly })])[1]!, / 12\.5 +- +in effect$/);
});

Deno.test("services that need attention have headings in the status and in the report of top", () => {
  const perSecond = { connections: 12.5, packets: 1, bytes: 3_400_000 };
  const traffic = { connections: 1, packets: 1, bytes: 1, perSecond, failures: {} };
  const services = [service("a/b", { usedEndpoints: 0, internal: "reject", traffic })];
  const page = { total: 1, page: 1, pages: 1, services, attention: { ...NONE, empty: 1 }, namespaces: [] };
  const outputs = [
    statusLines(STATUS, page, PLAIN),
    topLines(STATUS, page),
  ];
  for (const lines of outputs) {
    const heading = lines.findIndex((line) => /^ {2}SERVICE +FAMILY +ENDPOINTS +CONN\/S +BYTES\/S +STATE$/.test(line));
    assert.match(lines[heading + 1] ?? "", /^ {2}a\/b +IPv4 +0\/3 +12\.5 +3\.4M +Traffic/);
  }
});

Deno.test("the status and top have a line for what a feature says about the node", () => {
  const said = { label: "Toy", tone: "bad", words: "is broken", reason: "by a child", data: {} } as const;
  const status = fakeView({ features: { toy: said } });
  assert.ok(statusLines(status, undefined, PLAIN).includes("toy       ● is broken  by a child"));
  assert.ok(topLines(status, undefined).includes("toy       ● is broken  by a child"));
});
