import { describeMode } from "../../../backends/mod.ts";
import assert from "node:assert/strict";
import type { ProblemCode } from "../../../core/problems/mod.ts";
import {
  BALANCE_ALGORITHMS,
  BALANCE_HASHES,
  describeRules,
  IPVS_SCHEDULERS,
  readPacketCounts,
  readTraffic,
  type TrafficReading,
} from "../../../core/model/mod.ts";
import { checkedMessage } from "../../../workers/checked_message.ts";
import { checkedProblems, checkedReport } from "../../../workers/supervise.ts";
import { fakeServicePort, fakeSettings, fakeSources } from "../../fakes/service_port.ts";

const NFTABLES = describeMode("nftables");
const START = { type: "start", family: "IPv4", mode: "ipvs", logLevel: "info", logFormat: "json", kernel: [] };
const IPVS = {
  scheduler: "rr",
  strictARP: false,
  excludePrefixes: ["10.0.0.0/8"],
  timeoutSeconds: { tcp: 0, tcpFin: 0, udp: 0 },
};

const delta = (changes: object = {}) => ({
  revision: 2,
  base: 1,
  settings: undefined,
  set: [],
  deleted: [],
  ...changes,
});
const sync = (changes: object) => ({ type: "sync", delta: delta(changes) });
const withPort = (changes: object) => sync({ set: [{ ...fakeServicePort("default/web:http"), ...changes }] });
const withSettings = (changes: object) => sync({ settings: { ...fakeSettings(), ...changes } });

Deno.test("valid messages from main are accepted unchanged", () => {
  const messages = [
    { type: "role", family: "IPv6", path: "/usr/sbin:/sbin" },
    { ...START, ipvs: IPVS, kernel: [{ name: "net.ipv4.ip_forward", value: 1 }], kernelFirst: true },
    { ...START, ipvs: undefined },
    withPort({}),
    withPort({ name: "default/web", clusterIP: "fd00::1", clusterEndpoints: ["[fd00::2]:80", "10.1.0.1:65535"] }),
    withPort({
      loadBalancerSources: fakeSources(["10.0.0.0/8", "fd00::/64"]),
      externalIPs: ["198.51.100.1"],
    }),
    withPort({ nodePort: 30080, nodePortPrefixes: ["192.0.2.0/24", "fd00::/64"] }),
    withSettings({ localTraffic: { by: "bridge", interface: "cni0" } }),
    withSettings({ localTraffic: { by: "interface-prefix", prefix: "veth_0-a.1" } }),
    withSettings({ nodePortPrefixes: ["192.0.2.1/32"], ipvs: IPVS }),
    sync({ deleted: ["default/web:http|tcp", "default/web|sctp"] }),
    sync({ base: undefined, settings: fakeSettings(), part: "head" }),
    sync({ part: "rest" }),
    { type: "call", number: 1, name: "describeRules", request: "any key" },
    { type: "call", number: 2, name: "readPacketCounts", request: undefined },
    ...["compare", "cleanup", "ping", "end-sibling"].map((type) => ({ type })),
    { type: "stop", keepWorker: true },
  ];
  for (const message of messages) assert.equal(checkedMessage(structuredClone(message)).type, message.type);
});

const LINE = "\n-A INPUT -j DROP";
const REFUSED: Readonly<Record<string, unknown>> = {
  "another part of a state": sync({ part: "middle" }),
  "any call": { type: "call", number: 1, name: "constructor", request: undefined },
  "a request of a call without any": { type: "call", number: 1, name: "readTraffic", request: "-f" },
  "no object": null,
  "no type": {},
  "an unknown type": { type: "run", tool: "sh" },
  "a type that every object has": { type: "constructor" },
  "a field more": { type: "ping", code: {} },
  "a sibling's code": {
    type: "start-sibling",
    number: 1,
    port: {},
    code: { entry: "data:,", name: "x", tools: ["sh"] },
  },
  "another family": { ...START, family: "IPv5" },
  "another mode": { ...START, mode: "constructor" },
  "another log level": { ...START, logLevel: "info\nfake" },
  "any setting of the kernel": { ...START, kernel: [{ name: "kernel.core_pattern", value: 1 }] },
  "a setting with another value": { ...START, kernel: [{ name: "net.ipv4.ip_forward", value: 0 }] },
  "an option in place of a setting": { ...START, kernel: [{ name: "-p/etc/passwd", value: 1 }] },
  "a scheduler that is an option": { ...START, ipvs: { ...IPVS, scheduler: "-C/tmp/x" } },
  "a timeout that is text": { ...START, ipvs: { ...IPVS, timeoutSeconds: { tcp: "1 -A", tcpFin: 0, udp: 0 } } },
  "a revision that is text": { type: "sync", delta: delta({ revision: "1" }) },
  "a list that is none": sync({ set: { length: 1 } }),
  "a quote in a name": withPort({ name: 'default/web"' }),
  "a line in a name": withPort({ name: `default/web${LINE}` }),
  "a newline at the end of a name": withPort({ name: "default/web\n" }),
  "a protocol": withPort({ protocol: "tcp -j ACCEPT" }),
  "a verdict": withPort({ internal: "accept" }),
  "a cluster IP": withPort({ clusterIP: `10.0.0.1${LINE}` }),
  "two cluster IPs": withPort({ clusterIP: "10.0.0.1,10.0.0.2" }),
  "a port": withPort({ port: "80" }),
  "a port that is none": withPort({ port: 65_536 }),
  "an endpoint": withPort({ clusterEndpoints: [`10.0.0.1:80${LINE}`] }),
  "an endpoint with a range of ports": withPort({ localEndpoints: ["10.0.0.1:80-90"] }),
  "an external IP": withPort({ externalIPs: ["10.0.0.1 -j ACCEPT"] }),
  "a source range": withPort({ loadBalancerSources: { ranges: ["!10.0.0.0/8"], includeNode: false } }),
  "sources without ranges": withPort({ loadBalancerSources: { includeNode: true } }),
  "sources with a wrong flag": withPort({ loadBalancerSources: { ranges: [], includeNode: "no" } }),
  "a prefix of a node port": withPort({ nodePortPrefixes: [`192.0.2.0/24${LINE}`] }),
  "an affinity": withPort({ affinitySeconds: -1 }),
  "an interface with a quote": withSettings({ localTraffic: { by: "bridge", interface: 'x" accept; #' } }),
  "an interface that is an option": withSettings({ localTraffic: { by: "bridge", interface: "-j" } }),
  "an interface with a space": withSettings({ localTraffic: { by: "interface-prefix", prefix: "a b" } }),
  "a prefix of pods": withSettings({ localTraffic: { by: "source-prefix", prefix: 'include "/etc/shadow"' } }),
  "a mark of two bits": withSettings({ masqueradeMark: 3 }),
  "a mark that is text": withSettings({ masqueradeMark: "0x4000/0x4000 -j ACCEPT" }),
  "settings of another mode": withSettings({ mode: "constructor" }),
  "a node IP": withSettings({ nodeIP: `192.0.2.1${LINE}` }),
  "a range of services": withSettings({ serviceRanges: ["10.96.0.0/16 }; include"] }),
  "a key": sync({ deleted: [`default/web|tcp${LINE}`] }),
};

for (const [what, message] of Object.entries(REFUSED)) {
  Deno.test(`a message is rejected for ${what}`, () => {
    assert.throws(() => checkedMessage(message), /^Error: message refused: /);
  });
}

Deno.test("a rejection names the invalid field in a short line", () => {
  assert.throws(
    () => checkedMessage({ ...START, logLevel: "loud" }),
    /invalid field "logLevel" in a message of type start/,
  );
  const name = `${"x".repeat(10_000)}\n`;
  assert.throws(() => checkedMessage({ type: "ping", [name]: 1 }), ({ message }: Error) => {
    return message.length < 200 && !message.includes("\n");
  });
});

Deno.test("a report with an unknown code counts as a failed sync; known codes pass", () => {
  const problem = (code: string) => ({ code: code as ProblemCode, servicePort: undefined, message: "no" });
  const report = (...problems: ReturnType<typeof problem>[]) => ({
    ...{ family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 0, counts: {} } as const,
    problems,
  });
  const known = report(problem("rules-refused"));
  assert.deepEqual(checkedReport(known, NFTABLES), known);
  const reported = ["setup-failed", 'x"} 1', "constructor"].map((code) => ({
    ...{ code: code as ProblemCode, subject: "IPv4", detail: "no" },
  }));
  assert.deepEqual(checkedProblems(reported).map(({ code }) => code), ["setup-failed"]);
  const codes =
    checkedReport(report(problem('x"} 1'), problem("constructor"), problem("rules-refused")), NFTABLES).problems;
  assert.deepEqual(codes.map(({ code }) => code), ["sync-failed", "sync-failed", "rules-refused"]);
});

Deno.test("of the counts in a report, those pass that are declared and numbers", () => {
  const counts = { drift_repaired: 1, constructor: 2, conntrack_deleted: NaN, conntrack_ms: Infinity };
  const report = {
    ...{ family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 0, problems: [] } as const,
    counts,
  };
  assert.deepEqual(checkedReport(report, NFTABLES).counts, { drift_repaired: 1 });
});

Deno.test("a reading of traffic passes only if every row has its three counts", () => {
  const reading = {
    durationMs: 1,
    ports: ["default/web|tcp"],
    endpoints: ["10.1.0.1:80"],
    counts: Float64Array.of(1, 2, 3),
    failures: [{ port: "default/web|tcp", reason: "no-endpoints", packets: 1 }],
  } as const;
  assert.equal(readTraffic.checked(reading), reading);
  const invalid: readonly Partial<TrafficReading>[] = [
    { durationMs: NaN },
    { ports: [] },
    { endpoints: [] },
    { counts: [1, 2, 3] as unknown as Float64Array },
    { counts: Float64Array.of(1, 2) },
    { counts: Float64Array.of(1, 2, -3) },
    { counts: Float64Array.of(1, 2, Infinity) },
    { failures: [{ port: "default/web|tcp", reason: "nothing" as "no-endpoints", packets: 1 }] },
    { failures: [{ port: "default/web|tcp", reason: "no-endpoints", packets: -1 }] },
  ];
  for (const change of invalid) assert.equal(readTraffic.checked({ ...reading, ...change }), undefined);
});

Deno.test("a description of rules or counts of packets pass only with valid fields", () => {
  const rules = { parts: [{ place: "chain services", lines: ["drop"] }], problem: undefined };
  const counts = { ctStateInvalidDropped: 1, localhostNodePortsAccepted: 0 };
  assert.deepEqual([describeRules.checked(rules), readPacketCounts.checked(counts)], [rules, counts]);
  assert.equal(describeRules.checked({ ...rules, parts: [{ place: "chain services", lines: [1] }] }), undefined);
  assert.equal(readPacketCounts.checked({ ...counts, ctStateInvalidDropped: NaN }), undefined);
});

Deno.test("every way to balance is accepted, and no other", () => {
  const withBalance = (algorithm: string, hash?: string) => () =>
    checkedMessage(withPort({ balance: { algorithm, hash, clusterSlots: [8], clusterWeights: [0, 1] } }));
  for (const algorithm of [...BALANCE_ALGORITHMS, ...IPVS_SCHEDULERS]) withBalance(algorithm)();
  for (const hash of BALANCE_HASHES) withBalance("consistent-hash", hash)();
  assert.throws(withBalance("fastest"), /message refused/);
  assert.throws(withBalance("consistent-hash", "header"), /message refused/);
});

Deno.test("a setting that is only ever on is accepted as on or absent", () => {
  for (const name of ["countsAttempts", "countTraffic"]) {
    for (const value of [true, undefined]) checkedMessage(withSettings({ [name]: value }));
    for (const value of [false, 1, "true"]) {
      assert.throws(() => checkedMessage(withSettings({ [name]: value })), /message refused/, name);
    }
  }
});
