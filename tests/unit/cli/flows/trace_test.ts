import assert from "node:assert/strict";
import { dropLine, dropOf, pathLines, readTraces, type Trace } from "../../../../cli/flows/trace.ts";
import { runnerThatPrints } from "./printing_runner.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const packet = (to: string, port: number, more = "") =>
  `packet: iif "vc" ${more}ether saddr da:a7:be:3b:5f:2a ether daddr 4a:7a:c8:57:f1:cb ip saddr 10.1.0.2 ip daddr ${to} ` +
  `ip dscp 0x00 ip ecn 0x0 ip ttl 64 ip id 21182 ip length 60 tcp sport 51604 tcp dport ${port} tcp flags == 0x2 tcp window 1 `;

/** Lines of nft 1.0.6. */
const DELIVERED = [
  `ip sluice-trace-7 prerouting ${packet("10.96.0.10", 80)}`,
  "ip sluice-trace-7 prerouting unknown rule handle 3 (verdict continue)",
  "ip sluice-trace-7 prerouting policy accept ",
  `ip sluice nat-prerouting ${packet("10.96.0.10", 80)}`,
  "ip sluice nat-prerouting rule jump services (verdict jump services)",
  "ip sluice services rule ip daddr . meta l4proto . th dport vmap @services (verdict goto pick-tcp-2)",
  "ip sluice pick-tcp-2 rule dnat ip to ip daddr . tcp dport . numgen random mod 2 map @tcp-endpoints (verdict accept)",
  `ip sluice filter-forward ${packet("10.2.0.2", 8080, 'oif "vs" ')}`,
  "ip sluice filter-forward rule ct status 0x20 jump count-packets (verdict jump count-packets)",
  "ip sluice filter-forward policy accept ",
  `ip filter FORWARD ${packet("10.2.0.2", 8080, 'oif "vs" ')}`,
  "ip filter FORWARD rule ip daddr 10.2.0.0/16 counter packets 1 bytes 60 (verdict accept)",
].map((line) => `trace id fce7056e ${line}`);

const rejected = (chain: string, rule: string) => [
  `trace id 93db4648 ip sluice filter-forward ${packet("10.96.0.11", 80, 'oif "vs" ')}`,
  "trace id 93db4648 ip sluice filter-forward rule ct state 0x8 jump services-check (verdict jump services-check)",
  `trace id 93db4648 ip ${chain} rule ${rule} (verdict drop)`,
];

function tracesOf(lines: readonly string[]): { readonly atOnce: readonly Trace[]; readonly later: readonly Trace[] } {
  const clock = createFakeClock();
  const traces: Trace[] = [];
  readTraces(runnerThatPrints(lines), clock, (trace) => traces.push(trace));
  const atOnce = [...traces];
  clock.advance(300);
  return { atOnce, later: traces.slice(atOnce.length) };
}

Deno.test("a trace ends when nothing more follows; each rule is explained, foreign ones by their text", () => {
  const { atOnce, later } = tracesOf(DELIVERED);
  assert.deepEqual(atOnce, []);
  assert.equal(later.length, 1);
  assert.deepEqual(pathLines(later[0]!, "default/web:http"), [
    "10.1.0.2:51604 → 10.96.0.10:80/tcp, arrived at vc",
    "  ip sluice nat-prerouting  looks for a service with this destination",
    "  ip sluice services        is for default/web:http: one of 2 endpoints is picked (chain pick-tcp-2)",
    "  ip sluice pick-tcp-2      sends it to the endpoint 10.2.0.2:8080",
    "  ip sluice filter-forward  is counted",
    "  ip filter FORWARD         ip daddr 10.2.0.0/16 (accept)",
    "No rule dropped it; it left at vs for 10.2.0.2:8080.",
  ]);
});

Deno.test("of the chains of session affinity, a trace has those that know the client, or that give it an endpoint", () => {
  const traceOf = (...rules: readonly string[]) => {
    const lines = [`nat-prerouting ${packet("10.96.0.10", 80)}`, ...rules].map((line) =>
      `trace id 1 ip sluice ${line}`
    );
    return pathLines(tracesOf(lines).later[0]!, "default/web:http").slice(1, -1);
  };
  const jumps = [0, 1].map((block) =>
    `affinity-X rule jump affinity-X-known-${block} (verdict jump affinity-X-known-${block})`
  );
  const chosen = "dnat to 10.2.0.2:8080 (verdict accept)";
  assert.deepEqual(traceOf(...jumps, `affinity-X-known-1 rule a @clients update @clients { a } ${chosen}`), [
    "  ip sluice affinity-X          belongs to a client that has an endpoint",
    "  ip sluice affinity-X-known-1  sends it to an endpoint",
  ]);
  assert.equal(
    traceOf("affinity-X rule jump affinity-to-known-tcp-9-0-f (verdict jump affinity-to-known-tcp-9-0-f)").length,
    0,
  );
  const shared = "affinity-X rule goto affinity-to-new-tcp-9-0-f (verdict goto affinity-to-new-tcp-9-0-f)";
  assert.match(traceOf(shared, `affinity-to-new-tcp-9-0-f rule a ${chosen}`)[0]!, / without an endpoint$/);
  const drawn = "affinity-X rule numgen random mod 9 < 3 goto affinity-X-new-0 (verdict goto affinity-X-new-0)";
  assert.deepEqual(traceOf(...jumps, drawn, `affinity-X-new-0 rule update @clients { a } ${chosen}`), [
    "  ip sluice affinity-X        belongs to a client without an endpoint",
    "  ip sluice affinity-X-new-0  sends it to an endpoint",
  ]);
});

Deno.test("a trace that is dropped ends at once, with the owner of the rule and its reason", () => {
  const key = "ip daddr . meta l4proto . th dport";
  const cases = [
    ["sluice services-check", `${key} @refused reject`, "service", "rejected: the service has no usable endpoint"],
    ["sluice services-check", `${key} @refused update @count-rejected { ${key} } reject`, "service", undefined],
    ["sluice nodeports-check", `${key} @dropped drop`, "policy", undefined],
    ["sluice nodeport-refused-ABC", "ip daddr 192.168.1.0/24 reject", "service", undefined],
    ["sluice nodeport-refused-ABC", "ip6 daddr fd00::1 drop", "policy", undefined],
    ["sluice sources-ABC", "drop", "source-range", undefined],
    ["sluice filter-forward", "ct state new ip daddr @cluster-ips reject", "service", undefined],
    [
      "filter KUBE-SERVICES",
      "ip daddr 10.96.0.11  tcp dport 80 counter packets 0 bytes 0 reject",
      "service",
      undefined,
    ],
    ["filter KUBE-EXTERNAL-SERVICES", "ip daddr 192.0.2.1 counter packets 0 bytes 0 drop", "policy", undefined],
    ["filter KUBE-PROXY-FIREWALL", "ip daddr 192.0.2.2 counter packets 0 bytes 0 drop", "source-range", undefined],
    ["netpol ingress", "ip saddr 10.1.0.2 drop", "other", "dropped by a rule of table netpol: another program's"],
  ] as const;
  for (const [chain, rule, owner, reason] of cases) {
    const { atOnce } = tracesOf(rejected(chain, rule));
    assert.equal(atOnce.length, 1, rule);
    const drop = dropOf(atOnce[0]!, 0, "default/empty");
    assert.equal(drop.owner, owner, rule);
    if (reason !== undefined) assert.equal(drop.reason, reason);
    assert.equal(drop.rule, rule);
  }
});

Deno.test("a drop is one line, with the rule if it is another program's", () => {
  const line = (chain: string, rule: string) =>
    dropLine(dropOf(tracesOf(rejected(chain, rule)).atOnce[0]!, 0, "default/empty"));
  const connection = "00:00:00  drop    10.1.0.2:51604 → 10.96.0.11:80/tcp (default/empty)  ";
  assert.equal(
    line("sluice services-check", "ip daddr . meta l4proto . th dport @refused reject"),
    `${connection}rejected: the service has no usable endpoint  [ip sluice services-check]`,
  );
  assert.equal(
    line("netpol ingress", "ip saddr 10.1.0.2 drop"),
    `${connection}dropped by a rule of table netpol: another program's  [ip netpol ingress: ip saddr 10.1.0.2 drop]`,
  );
});

Deno.test("of a flood of connections, a bounded number is traced at a time", () => {
  const first = (id: number) => `trace id ${id.toString(16)} ip sluice filter-forward ${packet("10.96.0.10", 80)}`;
  const { later } = tracesOf(Array.from({ length: 10_100 }, (_, id) => first(id)));
  assert.equal(later.length, 10_000);
});
