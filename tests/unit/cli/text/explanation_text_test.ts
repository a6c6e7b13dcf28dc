import assert from "node:assert/strict";
import type { ExplainedEndpoint, ExplainedService, Explanation, Outcome } from "../../../../answers/mod.ts";
import { explanationText } from "../../../../cli/text/explanation_text.ts";

function endpoint(number: number, changes: Partial<ExplainedEndpoint> = {}): ExplainedEndpoint {
  return {
    ...{ target: `10.1.0.${number}:80`, node: "n2", zone: "", onThisNode: false },
    ...{ ready: true, serving: true, terminating: false, used: true, cluster: "used", local: "elsewhere" },
    ...{ reason: "ready", ...changes },
  } as ExplainedEndpoint;
}

const SERVICE: ExplainedService = {
  ...{ name: "shop/web:http", type: "ClusterIP", frontend: "clusterIP", frontendText: "cluster IP 10.0.0.1:80/TCP" },
  ...{ policies: [], topology: "none", endpoints: [], rules: undefined },
} as unknown as ExplainedService;

const BALANCED: Outcome = {
  ...{ from: { origin: "pod", address: undefined }, fate: "balanced", reason: "endpoints", policy: "cluster" },
  ...{ endpoints: ["10.1.0.1:80"], onlySources: undefined, masquerade: undefined, hairpin: [] },
};

/** The lines of an explanation of a service with these changes. */
function lines(changes: Partial<ExplainedService>, all = false, more: Partial<Explanation> = {}): readonly string[] {
  const explanation: Explanation = {
    destination: { family: "IPv4", address: "10.0.0.1", port: 80, protocol: "tcp" },
    mode: "iptables",
    node: { name: "n1", zone: "", address: "192.0.2.1" },
    service: { ...SERVICE, ...changes },
    outcomes: [BALANCED],
    remarks: [],
    ...more,
  };
  return explanationText(explanation, all).split("\n");
}

const rules = (count: number, places: readonly string[]) => ({
  parts: places.map((place) => ({ place, lines: Array.from({ length: count }, (_, i) => `${place} ${i + 1}`) })),
  ...{ from: "rendering", since: undefined },
} as const);

Deno.test("an explanation begins with the destination, the node, the service and notes", () => {
  const node = { name: "n1", zone: "b", address: "192.0.2.1" };
  assert.deepEqual(lines({}, false, { node, remarks: ["one", "two"] }).slice(0, 4), [
    "10.0.0.1:80/TCP on node n1 (192.0.2.1, zone b, iptables mode)",
    "  is cluster IP 10.0.0.1:80/TCP of shop/web:http (ClusterIP)",
    "  note: one",
    "  note: two",
  ]);
  assert.deepEqual(lines({}, false, { service: undefined }), [
    "10.0.0.1:80/TCP on node n1 (192.0.2.1, iptables mode)",
    "  no service has this address and port",
    "",
    "A new connection",
    "  from a pod of this node: goes to 10.1.0.1:80",
    "",
  ]);
});

Deno.test("only the sources that a service admits are named", () => {
  const outcomes = [BALANCED, { ...BALANCED, onlySources: ["192.0.2.0/24", "198.51.100.0/24"] }];
  assert.deepEqual(lines({}, false, { outcomes }).slice(4, 7), [
    "  from a pod of this node: goes to 10.1.0.1:80",
    "  from a pod of this node: goes to 10.1.0.1:80",
    "    only from 192.0.2.0/24, 198.51.100.0/24; other sources are dropped",
  ]);
});

Deno.test("policies and endpoints are columns; shares are one if any endpoint has some", () => {
  const policies = [
    { name: "a", value: "1", effect: "short" },
    { name: "long", value: "value", effect: "long" },
  ];
  const endpoints = [endpoint(1), endpoint(100, { node: "", used: false, reason: "not ready" })];
  assert.deepEqual(lines({ policies, endpoints }).slice(6), [
    "Policies",
    "  a 1         short",
    "  long value  long",
    "",
    "Endpoints (1 of 2 in use)",
    "  in  10.1.0.1:80    n2       ready",
    "  out 10.1.0.100:80  no node  not ready",
    "",
  ]);
  const shared = [endpoint(1, { shares: { cluster: 0.25 } as never }), endpoint(2)];
  assert.deepEqual(lines({ endpoints: shared }).slice(9, -1), [
    "  in  10.1.0.1:80  n2  25 %  ready",
    "  in  10.1.0.2:80  n2        ready",
  ]);
});

Deno.test("of more than 12 endpoints, the unused ones come first, and the number of the others is shown", () => {
  const targets = (all: boolean, count: number) =>
    lines({ endpoints: Array.from({ length: count }, (_, i) => endpoint(i, { used: i !== count - 1 })) }, all)
      .slice(9, -1).map((line) => line.replace(/:80.*/, "").trim());
  assert.deepEqual(targets(false, 12).slice(-2), ["in  10.1.0.10", "out 10.1.0.11"]);
  const first = targets(false, 14);
  assert.deepEqual([first.length, first[0], first[1], first.at(-1)], [
    ...[13, "out 10.1.0.13", "in  10.1.0.0", "and 2 more (--all shows them)"],
  ]);
  const whole = targets(true, 14);
  assert.deepEqual([whole.length, whole[0], whole.at(-1)], [14, "in  10.1.0.0", "out 10.1.0.13"]);
});

Deno.test("rules are shown below their place, a problem before them, and 20 lines unless all are asked for", () => {
  const shown = (count: number, all = false, problem?: string) =>
    lines({ rules: { ...rules(count, ["one", "one", "two"]), ...problem && { problem } } as never }, all).slice(10, -1);
  assert.deepEqual(shown(1), [
    "Rules (as a proxy would write them)",
    "  one",
    "    one 1",
    "    one 1",
    "  two",
    "    two 1",
  ]);
  assert.deepEqual(shown(1, false, "no such table").slice(0, 3), [
    "Rules (as a proxy would write them)",
    "  not in effect: no such table",
    "  one",
  ]);
  // 3 × 6 lines and 2 places, then 3 × 7 and 2.
  assert.deepEqual(shown(6).slice(1).length, 20);
  assert.equal(shown(6).at(-1), "    two 6");
  assert.deepEqual(shown(7).slice(-2), ["    two 4", "  and 3 more lines (--all shows them)"]);
  assert.deepEqual([shown(7, true).length, shown(7, true).at(-1)], [24, "    two 7"]);
});
